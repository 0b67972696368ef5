/* Launching a kernel: read sizes and strides, check what the kernel was made for, allocate results, call.
 *
 * launch.py is the readable form of the same; `table` there makes the tuples that are parsed here. Tensor facts come
 * through libtorch's C shim (torch/csrc/inductor/aoti_torch/c/shim.h), whose functions are handed over as addresses, so
 * that this file is built without torch.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>

enum { MAX_RANK = 12, MAX_AXES = 24, MAX_LOOPS = 16, MAX_INPUTS = 32, MAX_OUTPUTS = 16, MAX_PINS = 32, MAX_HELD = 48, MAX_TERMS = 8,
       MAX_PICKED = 48 };
enum { SPARES = 64, WORTH_KEEPING = 1 << 18 }; /* how many; bytes: smaller ones come without page faults */
enum { STALE = 1024 }; /* results later, memory that nobody used again is let go */
enum { LET_GO = 16384 }; /* elements: below this, letting other threads run costs more than the kernel */

typedef int32_t (*get_pointer)(void *, void **);
typedef int32_t (*get_longs)(void *, int64_t **);
typedef int32_t (*get_long)(void *, int64_t *);
typedef int32_t (*get_int)(void *, int32_t *);

/* What `setup` found out about this build of torch. */
static struct {
    get_pointer data_ptr;
    get_longs sizes, strides;
    get_long dim;
    get_int dtype;
    Py_ssize_t tensor;   /* offset of the at::Tensor in a Python tensor */
    Py_ssize_t keys;     /* offset of the dispatch keys in a TensorImpl */
    uint64_t plain_keys; /* the keys a plain CPU tensor may have */
    PyObject *types;     /* (Tensor, Parameter) */
    PyObject *empty_strided; /* (sizes, strides, dtype) -> a new tensor on the CPU */
    PyObject *use_count, *in_inference_mode, *laid_out; /* functions; NULL: nothing is kept */
    PyObject *data, *untyped_storage, *cdata; /* names */
    int64_t room;                             /* bytes that may still be kept */
} torch;

/* Memory of an earlier result. Fresh pages cost more than most kernels: once nobody else holds a result, the next one
 * of as many bytes goes to the same place, through a tensor of its own. All launches share these, so that a program
 * holds no more than it had in use at one time. */
typedef struct {
    PyObject *alias, *storage, *address; /* NULL: nothing is kept here */
    void *pointer;
    int64_t bytes, turn; /* turn: of its last use */
    int32_t dtype;
    long idle;        /* references to the storage when nobody else has one ... */
    Py_ssize_t known; /* ... and to the Python object for it */
} Spare;

static Spare spares[SPARES];
static int64_t turn;    /* how many results there were */
static Py_ssize_t live; /* launches */

typedef struct {
    int rank, dtype, dense, width; /* width: bytes of an element */
    int picked, units;             /* how many dimensions are looked up; how many of them must have stride one */
    int8_t pick[MAX_RANK], unit[MAX_RANK];
    int8_t layout[MAX_RANK];
    int8_t count[MAX_RANK]; /* axes of each dimension ... */
    int8_t first[MAX_RANK]; /* ... and where they start in `axes` */
    int8_t axes[MAX_AXES];
    int8_t step[MAX_LOOPS]; /* 0, 1, or -1 for a number known here */
    int64_t strides[MAX_RANK];
} Operand;

typedef struct {
    int64_t hint;
    int operand, dim, extent, divisors; /* extent: which number it is, where it is one */
    int8_t divide[MAX_AXES];
} Size;

typedef struct {
    int count;
    int8_t axes[MAX_AXES];
    int64_t number;
} Product; /* a loop, or axes whose product must be `number`, or the extent of that number */

typedef struct {
    int count, terms, exact;
    int8_t axes[MAX_AXES], operand[MAX_TERMS], dim[MAX_TERMS];
    int64_t factor, plus, times[MAX_TERMS];
} Held; /* the product of axes times `factor` is, or is at most, `plus` and the sum of sizes of inputs, each some times */

typedef union {
    double f;
    int64_t i;
} Number;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    void (*kernel)(void *const *, const int64_t *, const Number *);
    int inputs, outputs, axes, loops, pins, measures, held, numbers, extents; /* the last `extents` of the numbers are sizes */
    Operand operand[MAX_INPUTS + MAX_OUTPUTS];
    PyObject *dtype[MAX_OUTPUTS];
    char keeps[MAX_OUTPUTS]; /* may a result go to memory of earlier ones? */
    Size size[MAX_AXES];
    Product loop[MAX_LOOPS], pin[MAX_PINS], measure[MAX_PINS];
    Held hold[MAX_HELD];
    PyObject *shape[MAX_OUTPUTS], *steps[MAX_OUTPUTS]; /* tuples: sizes and strides of the result before, or NULL */
    char number[MAX_INPUTS]; /* 'i', 'f' or 's' for a size */
} Launch;

static int64_t product(const int8_t *axes, int count, const int64_t *sizes) {
    int64_t value = 1;
    for (int k = 0; k < count; k++) value *= sizes[axes[k]];
    return value;
}

/* The at::Tensor of a plain CPU tensor; NULL for anything else. Borrowed. */
static void *plain(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if ((PyObject *)type != PyTuple_GET_ITEM(torch.types, 0) && (PyObject *)type != PyTuple_GET_ITEM(torch.types, 1))
        return NULL;
    void *tensor = (char *)object + torch.tensor;
    const char *impl = *(char **)tensor;
    if (!impl) return NULL;
    const uint64_t keys = *(const uint64_t *)(impl + torch.keys);
    return keys & ~torch.plain_keys ? NULL : tensor;
}

/* Is the tensor of the dtype, rank and class of layouts? */
static int fits(const Operand *operand, void *tensor, int64_t **sizes, int64_t **strides) {
    int32_t dtype;
    int64_t rank;
    if (torch.dtype(tensor, &dtype) || dtype != operand->dtype) return 0;
    if (torch.dim(tensor, &rank) || rank != operand->rank) return 0;
    if (torch.sizes(tensor, sizes) || torch.strides(tensor, strides)) return 0;
    const int64_t *now = *strides, *was = operand->strides;
    for (int k = 0; k < operand->units; k++)
        if (now[operand->unit[k]] != 1) return 0;
    if (operand->dense) {
        int64_t step = 1;
        for (int k = operand->rank - 1; k >= 0; k--) {
            if (now[operand->layout[k]] != step) return 0;
            step *= (*sizes)[operand->layout[k]];
        }
        return 1;
    }
    for (int k = 0; k + 1 < operand->rank; k++) {
        const int outer = operand->layout[k], inner = operand->layout[k + 1];
        if ((now[outer] > now[inner]) != (was[outer] > was[inner])) return 0;
        if ((now[outer] == now[inner]) != (was[outer] == was[inner])) return 0;
    }
    for (int d = 0; d < operand->rank; d++)
        if ((now[d] == 0) != (was[d] == 0)) return 0;
    return 1;
}

static int64_t linear(const Held *held, int64_t *const *shapes) {
    int64_t value = held->plus;
    for (int k = 0; k < held->terms; k++) value += held->times[k] * shapes[held->operand[k]][held->dim[k]];
    return value;
}

static int is_picked(const Operand *operand, int d) {
    for (int k = 0; k < operand->picked; k++)
        if (operand->pick[k] == d) return 1;
    return 0;
}

static int axis_sizes(const Launch *self, int64_t *const *shapes, const Number *extents, int64_t *sizes) {
    for (int round = 0; round < 2; round++)
        for (int axis = 0; axis < self->axes; axis++) {
            const Size *size = &self->size[axis];
            if ((size->divisors > 0) != round) continue;
            int64_t value = size->hint;
            if (size->operand >= 0) value = shapes[size->operand][size->dim];
            if (size->operand == -2) value = linear(&self->hold[size->dim], shapes);
            if (size->extent >= 0) value = extents[size->extent].i;
            for (int k = 0; k < size->divisors; k++) value /= sizes[size->divide[k]] > 1 ? sizes[size->divide[k]] : 1;
            if (value < 2) return 0; /* one and zero have meanings of their own */
            sizes[axis] = value;
        }
    for (int i = 0; i < self->inputs; i++) {
        const Operand *operand = &self->operand[i];
        for (int d = 0; d < operand->rank; d++)
            if (!is_picked(operand, d) &&
                product(operand->axes + operand->first[d], operand->count[d], sizes) != shapes[i][d]) return 0;
    }
    for (int k = 0; k < self->pins; k++)
        if (product(self->pin[k].axes, self->pin[k].count, sizes) != self->pin[k].number) return 0;
    for (int k = 0; k < self->measures; k++) {
        const Product *measure = &self->measure[k];
        if (product(measure->axes, measure->count, sizes) != extents[measure->number].i) return 0;
    }
    for (int k = 0; k < self->held; k++) {
        const Held *held = &self->hold[k];
        const int64_t value = product(held->axes, held->count, sizes) * held->factor, known = linear(held, shapes);
        if (held->exact ? value != known : value > known) return 0;
    }
    return 1;
}

/* How far each loop goes in a tensor; 0 if it does not walk it as it should. */
static int loop_steps(const Launch *self, const Operand *operand, const int64_t *strides, const int64_t *sizes,
                      int64_t *steps) {
    int64_t of_axis[MAX_AXES];
    for (int axis = 0; axis < self->axes; axis++) of_axis[axis] = 0;
    for (int d = 0; d < operand->rank; d++) {
        int64_t stride = strides[d];
        for (int k = operand->count[d] - 1; k >= 0; k--) {
            const int axis = operand->axes[operand->first[d] + k];
            of_axis[axis] = stride;
            stride *= sizes[axis];
        }
    }
    for (int k = 0; k < self->loops; k++) {
        const Product *loop = &self->loop[k];
        steps[k] = loop->count ? of_axis[loop->axes[loop->count - 1]] : 0;
        if (operand->step[k] == 1 && steps[k] != 1) return 0;
        for (int a = 0; a + 1 < loop->count; a++)
            if (of_axis[loop->axes[a]] != of_axis[loop->axes[a + 1]] * sizes[loop->axes[a + 1]]) return 0;
    }
    return 1;
}

static void spare_clear(Spare *spare) {
    torch.room += spare->alias ? spare->bytes : 0;
    Py_CLEAR(spare->alias);
    Py_CLEAR(spare->storage);
    Py_CLEAR(spare->address);
}

static long uses(PyObject *address) {
    PyObject *count = PyObject_CallOneArg(torch.use_count, address);
    const long uses = count ? PyLong_AsLong(count) : -1;
    Py_XDECREF(count);
    if (uses < 0) PyErr_Clear();
    return uses;
}

/* Is the memory still where it was, and does nobody else look at it? */
static int spare_is_idle(const Spare *spare) {
    void *pointer;
    if (Py_REFCNT(spare->storage) != spare->known) return 0;
    if (torch.data_ptr((char *)spare->alias + torch.tensor, &pointer) || pointer != spare->pointer) return 0;
    return uses(spare->address) == spare->idle;
}

/* Is the alias a tensor as it is wanted? */
static int spare_fits(const Spare *spare, const Operand *operand, const int64_t *extents, const int64_t *strides) {
    int64_t *sizes, *steps, rank;
    void *tensor = (char *)spare->alias + torch.tensor;
    if (spare->dtype != operand->dtype || torch.dim(tensor, &rank) || rank != operand->rank) return 0;
    if (torch.sizes(tensor, &sizes) || torch.strides(tensor, &steps)) return 0;
    for (int d = 0; d < operand->rank; d++)
        if (sizes[d] != extents[d] || steps[d] != strides[d]) return 0;
    return 1;
}

/* Idle memory of a result of that size, if possible one laid out the same way. */
static Spare *spare_find(const Operand *operand, const int64_t *extents, const int64_t *strides, int64_t bytes) {
    for (int other = 0; other < 2; other++)
        for (int s = 0; s < SPARES; s++) {
            Spare *spare = &spares[s];
            if (!spare->alias || spare->bytes != bytes) continue;
            if (spare_fits(spare, operand, extents, strides) != other && spare_is_idle(spare)) return spare;
        }
    return NULL;
}

/* A place to remember memory in. What was not used for long gives way, then what is idle; at last what is in use is
 * forgotten. NULL where more would be kept than is allowed. */
static Spare *spare_place(int64_t bytes) {
    Spare *free = NULL, *oldest = NULL;
    for (int s = 0; s < SPARES; s++)
        if (spares[s].alias && turn - spares[s].turn > STALE) spare_clear(&spares[s]);
    while (torch.room < bytes) {
        Spare *idle = NULL;
        for (int s = 0; s < SPARES; s++)
            if (spares[s].alias && (!idle || spares[s].turn < idle->turn) && spare_is_idle(&spares[s]))
                idle = &spares[s];
        if (!idle) return NULL;
        spare_clear(idle);
    }
    for (int s = 0; s < SPARES; s++) {
        if (!spares[s].alias) free = &spares[s];
        if (!oldest || spares[s].turn < oldest->turn) oldest = &spares[s];
    }
    if (free) return free;
    spare_clear(oldest);
    return oldest;
}

/* Remember the memory of a new result. Failing to is no error. */
static void spare_keep(PyObject *made, int64_t bytes, int32_t dtype) {
    Spare *spare = spare_place(bytes);
    if (!spare) return;
    spare->alias = PyObject_GetAttr(made, torch.data);
    spare->storage = spare->alias ? PyObject_CallMethodNoArgs(spare->alias, torch.untyped_storage) : NULL;
    spare->address = spare->storage ? PyObject_GetAttr(spare->storage, torch.cdata) : NULL;
    const long now = spare->address ? uses(spare->address) : -1;
    if (now < 2 || torch.data_ptr((char *)spare->alias + torch.tensor, &spare->pointer)) {
        PyErr_Clear();
        Py_CLEAR(spare->alias);
        spare_clear(spare);
        return;
    }
    spare->idle = now - 1; /* without the result itself */
    spare->known = Py_REFCNT(spare->storage);
    spare->bytes = bytes;
    spare->dtype = dtype;
    spare->turn = turn;
    torch.room -= bytes;
}

static void spares_clear(void) {
    for (int s = 0; s < SPARES; s++) spare_clear(&spares[s]);
}

static int may_keep(void) {
    if (!torch.use_count) return 0;
    PyObject *inference = PyObject_CallNoArgs(torch.in_inference_mode); /* its tensors are of another kind */
    const int may = inference == Py_False;
    Py_XDECREF(inference);
    PyErr_Clear();
    return may;
}

/* Make `*tuple` a tuple of these numbers, unless it is one already. */
static int set_numbers(PyObject **tuple, const int64_t *numbers, int count) {
    PyObject *made;
    int d = 0;
    if (*tuple)
        while (d < count && PyLong_AsLongLong(PyTuple_GET_ITEM(*tuple, d)) == numbers[d]) d++;
    if (*tuple && d == count) return 0;
    if (!(made = PyTuple_New(count))) return -1;
    for (d = 0; d < count; d++) {
        PyObject *number = PyLong_FromLongLong(numbers[d]);
        if (!number) {
            Py_DECREF(made);
            return -1;
        }
        PyTuple_SET_ITEM(made, d, number);
    }
    Py_XSETREF(*tuple, made);
    return 0;
}

/* A tensor for a result. Returns a new reference; its strides are left in the array. */
static PyObject *allocate(Launch *self, int k, const int64_t *sizes, int64_t *strides) {
    /* Borrowed: the tuples, the dtype. */
    const Operand *operand = &self->operand[self->inputs + k];
    int64_t extents[MAX_RANK], step = 1;
    for (int r = operand->rank - 1; r >= 0; r--) {
        const int d = operand->layout[r];
        extents[d] = product(operand->axes + operand->first[d], operand->count[d], sizes);
        strides[d] = step;
        step *= extents[d];
    }
    const int64_t bytes = step * operand->width;
    const int keeps = self->keeps[k] && bytes >= WORTH_KEEPING && may_keep();
    Spare *spare = keeps ? spare_find(operand, extents, strides, bytes) : NULL;
    turn += keeps;
    if (spare) spare->turn = turn;
    if (spare && spare_fits(spare, operand, extents, strides)) return PyObject_GetAttr(spare->alias, torch.data);
    if (set_numbers(&self->shape[k], extents, operand->rank) < 0 ||
        set_numbers(&self->steps[k], strides, operand->rank) < 0)
        return NULL;
    if (spare) {
        /* Owned, all of it: another thread may come in between. It does not find the storage idle meanwhile. */
        PyObject *args[] = {Py_NewRef(spare->storage), self->dtype[k], Py_NewRef(self->shape[k]), Py_NewRef(self->steps[k])};
        PyObject *made = PyObject_Vectorcall(torch.laid_out, args, 4, NULL);
        Py_DECREF(args[0]);
        Py_DECREF(args[2]);
        Py_DECREF(args[3]);
        return made;
    }
    PyObject *args[] = {self->shape[k], self->steps[k], self->dtype[k]};
    PyObject *made = PyObject_Vectorcall(torch.empty_strided, args, 3, NULL);
    if (made && keeps) spare_keep(made, bytes, operand->dtype);
    return made;
}

/* launch(*tensors, *numbers) -> a tensor, a tuple of them, or None if the kernel does not fit these arguments. */
static PyObject *launch(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
    Launch *self = (Launch *)callable;
    if (PyVectorcall_NARGS(nargsf) != self->inputs + self->numbers || names) {
        PyErr_SetString(PyExc_TypeError, "a launch takes its kernel's tensors and numbers, by position");
        return NULL;
    }
    void *pointers[MAX_INPUTS + MAX_OUTPUTS];
    int64_t *shapes[MAX_INPUTS], *strides[MAX_INPUTS], sizes[MAX_AXES], made_strides[MAX_RANK];
    int64_t z[MAX_LOOPS * (1 + MAX_INPUTS + MAX_OUTPUTS) + 1 + 2 * MAX_PICKED];
    Number numbers[MAX_INPUTS];
    for (int i = 0; i < self->inputs; i++) {
        void *tensor = plain(args[i]);
        if (!tensor || !fits(&self->operand[i], tensor, &shapes[i], &strides[i])) Py_RETURN_NONE;
        if (torch.data_ptr(tensor, &pointers[i])) Py_RETURN_NONE;
    }
    for (int k = 0; k < self->numbers; k++) {
        PyObject *number = args[self->inputs + k];
        if (self->number[k] != 'f') {
            int overflow = 0;
            if (!PyLong_CheckExact(number)) Py_RETURN_NONE;
            numbers[k].i = PyLong_AsLongLongAndOverflow(number, &overflow);
            if (overflow) Py_RETURN_NONE;
        } else {
            if (!PyFloat_CheckExact(number)) Py_RETURN_NONE;
            numbers[k].f = PyFloat_AS_DOUBLE(number);
        }
    }
    if (!axis_sizes(self, shapes, numbers + self->numbers - self->extents, sizes)) Py_RETURN_NONE;
    for (int k = 0; k < self->loops; k++) z[k] = product(self->loop[k].axes, self->loop[k].count, sizes);
    for (int i = 0; i < self->inputs; i++)
        if (!loop_steps(self, &self->operand[i], strides[i], sizes, z + self->loops * (1 + i))) Py_RETURN_NONE;
    PyObject *results[MAX_OUTPUTS];
    int made = 0;
    for (; made < self->outputs; made++) {
        const int at = self->inputs + made;
        PyObject *tensor = results[made] = allocate(self, made, sizes, made_strides);
        if (!tensor) goto fail;
        if (torch.data_ptr((char *)tensor + torch.tensor, &pointers[at])) {
            PyErr_SetString(PyExc_RuntimeError, "a new tensor has no memory");
            made++;
            goto fail;
        }
        loop_steps(self, &self->operand[at], made_strides, sizes, z + self->loops * (1 + at));
    }
    int64_t *const flag = z + self->loops * (1 + self->inputs + self->outputs), work = 1;
    *flag = 0;
    int64_t *table = flag + 1;
    for (int i = 0; i < self->inputs; i++)
        for (int k = 0; k < self->operand[i].picked; k++) {
            *table++ = strides[i][self->operand[i].pick[k]];
            *table++ = shapes[i][self->operand[i].pick[k]];
        }
    for (int k = 0; k < self->loops; k++) work *= z[k];
    if (work < LET_GO) {
        self->kernel(pointers, z, numbers);
    } else {
        Py_BEGIN_ALLOW_THREADS
        self->kernel(pointers, z, numbers);
        Py_END_ALLOW_THREADS
    }
    if (*flag) { /* a check failed: eager says what is wrong */
        while (made > 0) Py_DECREF(results[--made]);
        Py_RETURN_NONE;
    }
    if (self->outputs == 1) return results[0];
    PyObject *tuple = PyTuple_New(self->outputs);
    if (!tuple) goto fail;
    for (int k = 0; k < self->outputs; k++) PyTuple_SET_ITEM(tuple, k, results[k]);
    return tuple;
fail:
    while (made > 0) Py_DECREF(results[--made]);
    return NULL;
}

/* Parsing the table. Each returns -1 with an exception set where the table is not of the expected form. */

static int parse_axes(PyObject *tuple, int8_t *axes, int *count, int limit) {
    const Py_ssize_t n = PyTuple_Check(tuple) ? PyTuple_GET_SIZE(tuple) : -1;
    if (n < 0 || n > limit) {
        PyErr_SetString(PyExc_ValueError, "too many axes");
        return -1;
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        const long axis = PyLong_AsLong(PyTuple_GET_ITEM(tuple, k));
        if (axis < 0 || axis >= MAX_AXES) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no such axis");
            return -1;
        }
        axes[k] = (int8_t)axis;
    }
    *count = (int)n;
    return 0;
}

/* (dtype code, bytes of an element, dims, layout, dense, strides, steps, picked, units) */
static int parse_operand(PyObject *row, Operand *operand) {
    PyObject *dims, *layout, *strides, *steps, *picked, *units;
    if (!PyArg_ParseTuple(row, "iiO!O!pO!O!OO", &operand->dtype, &operand->width, &PyTuple_Type, &dims, &PyTuple_Type, &layout,
                          &operand->dense, &PyTuple_Type, &strides, &PyTuple_Type, &steps, &picked, &units))
        return -1;
    if (parse_axes(picked, operand->pick, &operand->picked, MAX_RANK) < 0 ||
        parse_axes(units, operand->unit, &operand->units, MAX_RANK) < 0)
        return -1;
    const Py_ssize_t rank = PyTuple_GET_SIZE(dims), loops = PyTuple_GET_SIZE(steps);
    if (rank > MAX_RANK || loops > MAX_LOOPS || PyTuple_GET_SIZE(layout) != rank || PyTuple_GET_SIZE(strides) != rank) {
        PyErr_SetString(PyExc_ValueError, "too many dimensions");
        return -1;
    }
    operand->rank = (int)rank;
    int used = 0;
    for (int d = 0; d < rank; d++) {
        int count;
        operand->first[d] = (int8_t)used;
        if (parse_axes(PyTuple_GET_ITEM(dims, d), operand->axes + used, &count, MAX_AXES - used) < 0) return -1;
        operand->count[d] = (int8_t)count;
        used += count;
        operand->layout[d] = (int8_t)PyLong_AsLong(PyTuple_GET_ITEM(layout, d));
        operand->strides[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(strides, d));
    }
    for (int k = 0; k < loops; k++) operand->step[k] = (int8_t)PyLong_AsLong(PyTuple_GET_ITEM(steps, k));
    return PyErr_Occurred() ? -1 : 0;
}

static int check_count(Py_ssize_t count, int limit, const char *what) {
    if (count <= limit) return 0;
    PyErr_Format(PyExc_ValueError, "too many %s for one launch", what);
    return -1;
}

static int parse_products(PyObject *rows, Product *products) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(rows); k++) {
        PyObject *axes;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(rows, k), "OL", &axes, &products[k].number) ||
            parse_axes(axes, products[k].axes, &products[k].count, MAX_AXES) < 0)
            return -1;
    }
    return 0;
}

/* (axes, factor, plus, terms, exact) */
static int parse_held(PyObject *row, Held *held) {
    PyObject *axes, *terms;
    long long factor, plus;
    if (!PyArg_ParseTuple(row, "OLLO!p", &axes, &factor, &plus, &PyTuple_Type, &terms, &held->exact) ||
        parse_axes(axes, held->axes, &held->count, MAX_AXES) < 0 ||
        check_count(PyTuple_GET_SIZE(terms), MAX_TERMS, "terms") < 0)
        return -1;
    held->factor = factor, held->plus = plus;
    held->terms = (int)PyTuple_GET_SIZE(terms);
    for (int k = 0; k < held->terms; k++) {
        int operand, dim;
        long long times;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(terms, k), "iiL", &operand, &dim, &times)) return -1;
        held->operand[k] = (int8_t)operand, held->dim[k] = (int8_t)dim, held->times[k] = times;
    }
    return 0;
}

/* Launch(address, inputs, outputs, which to keep, output dtypes, sizes, loops, pins, numbers, measures, held) */
static PyObject *launch_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    unsigned long long address;
    PyObject *inputs, *outputs, *keeps, *dtypes, *sizes, *loops, *pins, *measures, *held;
    const char *numbers;
    Py_ssize_t count;
    if (keywords && PyDict_GET_SIZE(keywords)) {
        PyErr_SetString(PyExc_TypeError, "Launch takes no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "KO!O!O!O!O!O!O!s#O!O!", &address, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs,
                          &PyTuple_Type, &keeps, &PyTuple_Type, &dtypes, &PyTuple_Type, &sizes, &PyTuple_Type, &loops, &PyTuple_Type, &pins,
                          &numbers, &count, &PyTuple_Type, &measures, &PyTuple_Type, &held))
        return NULL;
    if (check_count(PyTuple_GET_SIZE(inputs), MAX_INPUTS, "inputs") < 0 ||
        check_count(PyTuple_GET_SIZE(outputs), MAX_OUTPUTS, "outputs") < 0 ||
        check_count(PyTuple_GET_SIZE(sizes), MAX_AXES, "axes") < 0 ||
        check_count(PyTuple_GET_SIZE(loops), MAX_LOOPS, "loops") < 0 ||
        check_count(PyTuple_GET_SIZE(pins), MAX_PINS, "pins") < 0 ||
        check_count(PyTuple_GET_SIZE(measures), MAX_PINS, "measures") < 0 ||
        check_count(PyTuple_GET_SIZE(held), MAX_HELD, "relations") < 0 || check_count(count, MAX_INPUTS, "numbers") < 0)
        return NULL;
    Launch *self = (Launch *)type->tp_alloc(type, 0);
    live += self != NULL;
    if (!self) return NULL;
    self->vectorcall = launch;
    self->kernel = (void (*)(void *const *, const int64_t *, const Number *))(uintptr_t)address;
    self->inputs = (int)PyTuple_GET_SIZE(inputs);
    self->outputs = (int)PyTuple_GET_SIZE(outputs);
    self->axes = (int)PyTuple_GET_SIZE(sizes);
    self->loops = (int)PyTuple_GET_SIZE(loops);
    self->pins = (int)PyTuple_GET_SIZE(pins);
    self->measures = (int)PyTuple_GET_SIZE(measures);
    self->held = (int)PyTuple_GET_SIZE(held);
    self->numbers = (int)count;
    for (int k = 0; k < self->numbers; k++) {
        self->number[k] = numbers[k];
        self->extents += numbers[k] == 's';
    }
    for (int i = 0; i < self->inputs; i++)
        if (parse_operand(PyTuple_GET_ITEM(inputs, i), &self->operand[i]) < 0) goto fail;
    for (int k = 0; k < self->outputs; k++) {
        if (parse_operand(PyTuple_GET_ITEM(outputs, k), &self->operand[self->inputs + k]) < 0) goto fail;
        self->dtype[k] = Py_NewRef(PyTuple_GET_ITEM(dtypes, k));
        self->keeps[k] = k < PyTuple_GET_SIZE(keeps) && PyTuple_GET_ITEM(keeps, k) == Py_True;
    }
    for (int axis = 0; axis < self->axes; axis++) {
        Size *size = &self->size[axis];
        PyObject *divide;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(sizes, axis), "LiiiO", &size->hint, &size->operand, &size->dim,
                              &size->extent, &divide) ||
            parse_axes(divide, size->divide, &size->divisors, MAX_AXES) < 0)
            goto fail;
        if (size->operand >= self->inputs || size->extent >= self->extents) {
            PyErr_SetString(PyExc_ValueError, "a size from an operand that is not there");
            goto fail;
        }
    }
    for (int k = 0; k < self->loops; k++)
        if (parse_axes(PyTuple_GET_ITEM(loops, k), self->loop[k].axes, &self->loop[k].count, MAX_AXES) < 0) goto fail;
    if (parse_products(pins, self->pin) < 0 || parse_products(measures, self->measure) < 0) goto fail;
    for (int k = 0; k < self->measures; k++)
        if (self->measure[k].number < 0 || self->measure[k].number >= self->extents) {
            PyErr_SetString(PyExc_ValueError, "a measure without its number");
            goto fail;
        }
    int picked = 0;
    for (int i = 0; i < self->inputs; i++) picked += self->operand[i].picked;
    if (check_count(picked, MAX_PICKED, "dimensions that are looked up") < 0) goto fail;
    for (int k = 0; k < self->held; k++)
        if (parse_held(PyTuple_GET_ITEM(held, k), &self->hold[k]) < 0) goto fail;
    return (PyObject *)self;
fail:
    Py_DECREF(self);
    return NULL;
}

static void launch_dealloc(PyObject *object) {
    Launch *self = (Launch *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (int k = 0; k < MAX_OUTPUTS; k++) {
        Py_XDECREF(self->dtype[k]);
        Py_XDECREF(self->shape[k]);
        Py_XDECREF(self->steps[k]);
    }
    if (--live == 0) spares_clear();
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMemberDef launch_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Launch, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot launch_slots[] = {
    {Py_tp_new, launch_new},
    {Py_tp_dealloc, launch_dealloc},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, launch_members},
    {0, NULL},
};

static PyType_Spec launch_spec = {
    .name = "dynajit.runtime._launch.Launch",
    .basicsize = sizeof(Launch),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = launch_slots,
};

/* setup(addresses, tensor offset, keys offset, plain keys, types, empty_strided): once, before any Launch is called. */
static PyObject *setup(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long data_ptr, sizes, strides, dim, dtype, keys;
    PyObject *types, *empty_strided;
    if (!PyArg_ParseTuple(args, "(KKKKK)nnKO!O", &data_ptr, &sizes, &strides, &dim, &dtype, &torch.tensor, &torch.keys,
                          &keys, &PyTuple_Type, &types, &empty_strided))
        return NULL;
    torch.data_ptr = (get_pointer)(uintptr_t)data_ptr;
    torch.sizes = (get_longs)(uintptr_t)sizes;
    torch.strides = (get_longs)(uintptr_t)strides;
    torch.dim = (get_long)(uintptr_t)dim;
    torch.dtype = (get_int)(uintptr_t)dtype;
    torch.plain_keys = keys;
    Py_XSETREF(torch.types, Py_NewRef(types));
    Py_XSETREF(torch.empty_strided, Py_NewRef(empty_strided));
    Py_RETURN_NONE;
}

/* keep(bytes, use_count, is_inference_mode_enabled, laid_out): how much memory of earlier results all launches may keep,
 * the functions that tell whether they may, and the one that makes a tensor of a storage; keep(0, None, None, None) for
 * nothing. What was kept is let go. -> what was allowed before. */
static PyObject *keep(PyObject *module, PyObject *args) {
    (void)module;
    long long bytes;
    PyObject *use_count, *inference, *laid_out;
    if (!PyArg_ParseTuple(args, "LOOO", &bytes, &use_count, &inference, &laid_out)) return NULL;
    spares_clear();
    const long long before = torch.room;
    Py_XSETREF(torch.data, PyUnicode_InternFromString("data"));
    Py_XSETREF(torch.untyped_storage, PyUnicode_InternFromString("untyped_storage"));
    Py_XSETREF(torch.cdata, PyUnicode_InternFromString("_cdata"));
    if (!torch.data || !torch.untyped_storage || !torch.cdata) return NULL;
    Py_XSETREF(torch.in_inference_mode, Py_NewRef(inference));
    Py_XSETREF(torch.laid_out, Py_NewRef(laid_out));
    Py_XSETREF(torch.use_count, use_count == Py_None ? NULL : Py_NewRef(use_count));
    torch.room = bytes;
    return PyLong_FromLongLong(before);
}

/* find_word(object address, size, word) -> offset of a 64-bit word in memory, or -1. */
static PyObject *find_word(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long address, word;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "KnK", &address, &size, &word)) return NULL;
    const uint64_t *words = (const uint64_t *)(uintptr_t)address;
    for (Py_ssize_t k = 0; k < size / 8; k++)
        if (words[k] == word) return PyLong_FromSsize_t(8 * k);
    return PyLong_FromLong(-1);
}

/* facts(tensor) -> (data pointer, sizes, strides, dtype code) as the shim tells them, to be compared with Python's. */
static PyObject *facts(PyObject *module, PyObject *object) {
    (void)module;
    void *tensor = plain(object), *pointer;
    int64_t *sizes, *strides, rank;
    int32_t dtype;
    if (!tensor) Py_RETURN_NONE;
    if (torch.data_ptr(tensor, &pointer) || torch.sizes(tensor, &sizes) || torch.strides(tensor, &strides) ||
        torch.dim(tensor, &rank) || torch.dtype(tensor, &dtype))
        Py_RETURN_NONE;
    PyObject *shape = PyTuple_New((Py_ssize_t)rank), *steps = PyTuple_New((Py_ssize_t)rank);
    if (!shape || !steps) goto fail;
    for (Py_ssize_t d = 0; d < rank; d++) {
        PyObject *size = PyLong_FromLongLong(sizes[d]), *step = PyLong_FromLongLong(strides[d]);
        if (!size || !step) {
            Py_XDECREF(size);
            Py_XDECREF(step);
            goto fail;
        }
        PyTuple_SET_ITEM(shape, d, size);
        PyTuple_SET_ITEM(steps, d, step);
    }
    return Py_BuildValue("KNNi", (unsigned long long)(uintptr_t)pointer, shape, steps, (int)dtype);
fail:
    Py_XDECREF(shape);
    Py_XDECREF(steps);
    return NULL;
}

static PyMethodDef methods[] = {
    {"setup", setup, METH_VARARGS, NULL},
    {"keep", keep, METH_VARARGS, NULL},
    {"find_word", find_word, METH_VARARGS, NULL},
    {"facts", facts, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "dynajit.runtime._launch", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__launch(void) {
    PyObject *module = PyModule_Create(&definition), *type = NULL;
    if (!module) return NULL;
    type = PyType_FromModuleAndSpec(module, &launch_spec, NULL);
    if (!type || PyModule_AddObjectRef(module, "Launch", type) < 0) {
        Py_XDECREF(type);
        Py_DECREF(module);
        return NULL;
    }
    Py_DECREF(type);
    return module;
}
