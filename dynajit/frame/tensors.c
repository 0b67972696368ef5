/* Facts about tensors, without linking torch: through the getters of its Python type, or faster through the C functions
   that libtorch exports for compiled code (torch/csrc/inductor/aoti_torch/c/shim.h), found at run time (shim.c). */
#include "frame.h"
#include "tensors.h"

Torch dj_torch;

/* ---- the getters ---- */

/* New reference: descriptor.__get__(tensor), without the detour through the type. */
static PyObject *
get(PyObject *descriptor, PyObject *tensor)
{
    if (Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) {
        PyGetSetDef *getset = ((PyGetSetDescrObject *)descriptor)->d_getset;
        return getset->get(tensor, getset->closure);
    }
    descrgetfunc descr_get = Py_TYPE(descriptor)->tp_descr_get;
    return descr_get == NULL ? Py_NewRef(descriptor) : descr_get(descriptor, tensor, (PyObject *)Py_TYPE(tensor));
}

static PyObject *
call(PyObject *method, PyObject *tensor)
{
    return PyObject_Vectorcall(method, &tensor, 1, NULL);
}

/* Whether a getter gives `expected`: singletons by identity, else by ==. */
static int
gives(PyObject *descriptor, PyObject *tensor, PyObject *expected)
{
    PyObject *value = get(descriptor, tensor);
    if (value == NULL) {
        return -1;
    }
    const int same = value == expected ? 1 : PyObject_RichCompareBool(value, expected, Py_EQ);
    Py_DECREF(value);
    return same;
}

/* The truth of tensor.method(). */
static int
says(PyObject *method, PyObject *tensor)
{
    PyObject *value = call(method, tensor);
    if (value == NULL) {
        return -1;
    }
    const int truth = PyObject_IsTrue(value);
    Py_DECREF(value);
    return truth;
}

/* The integers of a tuple; -1 with an exception, 0 if there are not `count` of them. */
static int
unpack(PyObject *tuple, Py_ssize_t count, int64_t *values)
{
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != count) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        values[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
        if (values[i] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return 1;
}

int
dj_tensor_sizes(PyObject *tensor, Py_ssize_t rank, int64_t *sizes)
{
    PyObject *tuple = get(dj_torch.shape, tensor);
    const int result = tuple == NULL ? -1 : unpack(tuple, rank, sizes);
    Py_XDECREF(tuple);
    return result;
}

PyObject *
dj_tensor_size(PyObject *tensor, Py_ssize_t dim)
{
    if (dj_shim_usable(tensor)) {
        const int64_t size = dj_shim_size(tensor, dim);
        return size < 0 ? Py_NewRef(dj_missing) : PyLong_FromLongLong(size);
    }
    if (dj_torch.tensor_base == NULL || !PyObject_TypeCheck(tensor, (PyTypeObject *)dj_torch.tensor_base)) {
        return Py_NewRef(dj_missing);
    }
    PyObject *tuple = get(dj_torch.shape, tensor);
    if (tuple == NULL) {
        return NULL;
    }
    PyObject *size = PyTuple_Check(tuple) && dim < PyTuple_GET_SIZE(tuple) ? PyTuple_GET_ITEM(tuple, dim) : dj_missing;
    Py_INCREF(size);
    Py_DECREF(tuple);
    return size;
}

int
dj_tensor_strides(PyObject *tensor, Py_ssize_t rank, int64_t *strides)
{
    PyObject *tuple = call(dj_torch.stride, tensor);
    const int result = tuple == NULL ? -1 : unpack(tuple, rank, strides);
    Py_XDECREF(tuple);
    return result;
}

int
dj_tensor_address(PyObject *tensor, uintptr_t *address)
{
    PyObject *value = call(dj_torch.data_ptr, tensor);
    if (value == NULL) {
        return -1;
    }
    *address = (uintptr_t)PyLong_AsUnsignedLongLong(value);
    Py_DECREF(value);
    return PyErr_Occurred() ? -1 : 1;
}

/* ---- the specification ---- */

static int
wrong_spec(const char *what)
{
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "TENSOR: %s", what);
    }
    return -1;
}

/* Sizes and strides: a tuple of int or None; None becomes DJ_ANY. Strides may be DJ_TIMES(dimension). */
static int64_t *
parse_numbers(PyObject *given, Py_ssize_t *count, bool related)
{
    if (!PyTuple_Check(given)) {
        wrong_spec("shape and strides are tuples");
        return NULL;
    }
    *count = PyTuple_GET_SIZE(given);
    int64_t *numbers = PyMem_Calloc((size_t)*count + 1, sizeof(int64_t));
    if (numbers == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < *count; i++) {
        PyObject *number = PyTuple_GET_ITEM(given, i);
        numbers[i] = number == Py_None ? DJ_ANY : PyLong_AsLongLong(number);
        const bool times = related && numbers[i] <= DJ_TIMES(0) && numbers[i] > DJ_TIMES(*count);
        if (number != Py_None && numbers[i] < 0 && !times) {
            wrong_spec("sizes and strides are not negative");
            PyMem_Free(numbers);
            return NULL;
        }
    }
    return numbers;
}

static int
parse_spec(TensorSpec *spec, PyObject *given)
{
    PyObject *type, *dtype, *device, *layout, *shape, *strides;
    Py_ssize_t nstrides;
    if (!PyTuple_Check(given)
        || !PyArg_ParseTuple(given,
                             "OOOOpOOi;(type, dtype, device, layout, requires_grad, shape, strides, flags)", &type,
                             &dtype, &device, &layout, &spec->requires_grad, &shape, &strides, &spec->flags)) {
        return wrong_spec("(type, dtype, device, layout, requires_grad, shape, strides, flags)");
    }
    if (dj_torch.tensor_type == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "TENSOR needs configure(torch) first");
        return -1;
    }
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, (PyTypeObject *)dj_torch.tensor_base)) {
        return wrong_spec("the type is a tensor type");
    }
    spec->type = (PyTypeObject *)Py_NewRef(type);
    spec->dtype = Py_NewRef(dtype);
    spec->device = Py_NewRef(device);
    spec->layout = Py_NewRef(layout);
    PyObject *is_complex = PyObject_GetAttrString(dtype, "is_complex");
    if (is_complex == NULL) {
        PyErr_Clear();
        return wrong_spec("the second item is a dtype");
    }
    spec->complex = is_complex == Py_True;
    Py_DECREF(is_complex);
    spec->sizes = parse_numbers(shape, &spec->rank, false);
    if (spec->sizes == NULL || spec->rank > DJ_RANK) {
        return wrong_spec("the rank is too high");
    }
    if (strides != Py_None) {
        spec->strides = parse_numbers(strides, &nstrides, true);
        if (spec->strides == NULL || nstrides != spec->rank) {
            return wrong_spec("as many strides as sizes");
        }
    }
    return dj_shim_spec(spec);
}

TensorSpec *
dj_tensor_spec(PyObject *given)
{
    TensorSpec *spec = PyMem_Calloc(1, sizeof(TensorSpec));
    if (spec == NULL) {
        PyErr_NoMemory();
    }
    else if (parse_spec(spec, given) < 0) {
        dj_tensor_spec_free(spec);
        spec = NULL;
    }
    return spec;
}

void
dj_tensor_spec_free(TensorSpec *spec)
{
    if (spec != NULL) {
        Py_XDECREF(spec->type);
        Py_XDECREF(spec->dtype);
        Py_XDECREF(spec->device);
        Py_XDECREF(spec->layout);
        PyMem_Free(spec->sizes);
        PyMem_Free(spec->strides);
        PyMem_Free(spec);
    }
}

int
dj_tensor_spec_visit(TensorSpec *spec, visitproc visit, void *arg)
{
    Py_VISIT(spec->type);
    Py_VISIT(spec->dtype);
    Py_VISIT(spec->device);
    Py_VISIT(spec->layout);
    return 0;
}

/* ---- the test ---- */

static bool
sizes_fit(const TensorSpec *spec, const int64_t *sizes)
{
    for (Py_ssize_t i = 0; i < spec->rank; i++) {
        if (spec->sizes[i] == DJ_ANY ? sizes[i] < 2 : sizes[i] != spec->sizes[i]) {
            return false;
        }
    }
    return true;
}

/* c10/core/TensorImpl.cpp, compute_contiguous. */
static bool
contiguous(Py_ssize_t rank, const int64_t *sizes, const int64_t *strides)
{
    int64_t expected = 1;
    bool result = true;
    for (Py_ssize_t i = rank - 1; i >= 0; i--) {
        if (sizes[i] == 0) {
            return true;
        }
        if (sizes[i] != 1 && strides[i] != expected) {
            result = false;
        }
        expected *= sizes[i];
    }
    return result;
}

static bool
strides_fit(const TensorSpec *spec, const int64_t *sizes, const int64_t *strides)
{
    for (Py_ssize_t i = 0; spec->strides != NULL && i < spec->rank; i++) {
        int64_t expected = spec->strides[i];
        if (expected < DJ_ANY) {
            const int64_t dim = DJ_TIMES(expected);
            expected = strides[dim] * sizes[dim];
        }
        if (expected != DJ_ANY && strides[i] != expected) {
            return false;
        }
    }
    return !(spec->flags & DJ_CONTIGUOUS) || contiguous(spec->rank, sizes, strides);
}

/* dtype, device, layout, requires_grad by the getters. */
static int
facts_fit(const TensorSpec *spec, PyObject *tensor)
{
    int same = gives(dj_torch.dtype, tensor, spec->dtype);
    if (same == 1) {
        same = gives(dj_torch.requires_grad, tensor, spec->requires_grad ? Py_True : Py_False);
    }
    if (same == 1) {
        same = gives(dj_torch.layout, tensor, spec->layout);
    }
    return same == 1 ? gives(dj_torch.device, tensor, spec->device) : same;
}

static int
test_by_getters(const TensorSpec *spec, PyObject *tensor)
{
    int64_t sizes[DJ_RANK], strides[DJ_RANK];
    int same = facts_fit(spec, tensor);
    if (same == 1) {
        same = dj_tensor_sizes(tensor, spec->rank, sizes);
    }
    if (same != 1 || !sizes_fit(spec, sizes)) {
        return same == 1 ? 0 : same;
    }
    if (spec->strides == NULL) {
        return spec->flags & DJ_CONTIGUOUS ? says(dj_torch.is_contiguous, tensor) : 1;
    }
    if (spec->rank > 0) {
        same = dj_tensor_strides(tensor, spec->rank, strides);
        if (same != 1 || !strides_fit(spec, sizes, strides)) {
            return same == 1 ? 0 : same;
        }
    }
    return 1;
}

static int
test_by_shim(const TensorSpec *spec, PyObject *tensor)
{
    const int64_t *sizes, *strides;
    if (!dj_shim_facts(spec, tensor, &sizes, &strides)) {
        return 0;
    }
    return sizes_fit(spec, sizes) && (strides == NULL || strides_fit(spec, sizes, strides));
}

static int
aligned(PyObject *tensor)
{
    uintptr_t address = 0;
    const int known = dj_shim_usable(tensor) ? dj_shim_address(tensor, &address) : dj_tensor_address(tensor, &address);
    return known == 1 ? (address & 15) == 0 : known;
}

static int
plain(const TensorSpec *spec, PyObject *tensor)
{
    if (dj_shim_usable(tensor)) {
        return dj_shim_plain(spec, tensor);
    }
    const int conj = spec->complex ? says(dj_torch.is_conj, tensor) : 0;
    const int neg = conj == 0 ? says(dj_torch.is_neg, tensor) : 0;
    return conj < 0 || neg < 0 ? -1 : !conj && !neg;
}

int
dj_tensor_test(const TensorSpec *spec, PyObject *value)
{
    if (Py_TYPE(value) != spec->type) {
        return 0;
    }
    int same = spec->by_shim ? test_by_shim(spec, value) : test_by_getters(spec, value);
    if (same == 1 && (spec->flags & DJ_ALIGNED)) {
        same = aligned(value);
    }
    if (same == 1 && (spec->flags & DJ_PLAIN)) {
        same = plain(spec, value);
    }
    return same;
}

/* ---- storage ---- */

typedef struct {
    uintptr_t storage; /* where the storage begins; 0: no memory */
    uintptr_t first, last; /* the bytes between the first and the last element: [first, last) */
} Extent;

static void
extent_of(Extent *extent, uintptr_t address, Py_ssize_t rank, const int64_t *sizes, const int64_t *strides,
          int64_t itemsize)
{
    int64_t span = 1;
    for (Py_ssize_t i = 0; i < rank; i++) {
        if (sizes[i] == 0) {
            extent->first = extent->last = address;
            return;
        }
        span += (sizes[i] - 1) * strides[i];
    }
    extent->first = address;
    extent->last = address + (uintptr_t)(span * itemsize);
}

static int
find_extent(PyObject *tensor, Extent *extent)
{
    /* Owned: storage, base, tuple */
    int64_t sizes[DJ_RANK], strides[DJ_RANK];
    uintptr_t address;
    int result = -1;
    PyObject *storage = NULL, *base = NULL;
    PyObject *tuple = get(dj_torch.shape, tensor);
    if (tuple == NULL) {
        return -1;
    }
    const Py_ssize_t rank = PyTuple_GET_SIZE(tuple);
    if (rank > DJ_RANK) {
        result = 0;
        goto exit;
    }
    if (unpack(tuple, rank, sizes) != 1 || dj_tensor_strides(tensor, rank, strides) != 1
        || dj_tensor_address(tensor, &address) != 1) {
        goto exit;
    }
    storage = call(dj_torch.untyped_storage, tensor);
    base = storage == NULL ? NULL : PyObject_CallMethodNoArgs(storage, dj_torch.data_ptr_name);
    PyObject *itemsize = base == NULL ? NULL : get(dj_torch.itemsize, tensor);
    if (itemsize == NULL) {
        goto exit;
    }
    extent->storage = (uintptr_t)PyLong_AsUnsignedLongLong(base);
    extent_of(extent, address, rank, sizes, strides, PyLong_AsLongLong(itemsize));
    Py_DECREF(itemsize);
    result = PyErr_Occurred() ? -1 : 1;
exit:
    Py_XDECREF(base);
    Py_XDECREF(storage);
    Py_DECREF(tuple);
    return result;
}

static int
find_extent_by_shim(PyObject *tensor, Extent *extent)
{
    ShimStorage facts;
    if (!dj_shim_storage(tensor, &facts)) {
        return 0;
    }
    extent->storage = facts.address == 0 ? 0 : facts.address - (uintptr_t)(facts.offset * facts.itemsize);
    extent_of(extent, facts.address, (Py_ssize_t)facts.rank, facts.sizes, facts.strides, facts.itemsize);
    return 1;
}

/* 1: different storages that do not overlap in memory either (two of them may be laid over one buffer). Tensors without
   memory share nothing. 0: they meet, or it cannot be told. */
int
dj_tensors_apart(PyObject *one, PyObject *other)
{
    Extent extents[2];
    PyObject *tensors[2] = {one, other};
    for (int i = 0; i < 2; i++) {
        if (dj_torch.tensor_type == NULL
            || !PyObject_TypeCheck(tensors[i], (PyTypeObject *)dj_torch.tensor_base)) {
            return 0;
        }
        const int known = dj_shim_usable(tensors[i]) ? find_extent_by_shim(tensors[i], &extents[i])
                                                     : find_extent(tensors[i], &extents[i]);
        if (known != 1) {
            return known;
        }
    }
    if (extents[0].storage == 0 || extents[1].storage == 0) {
        return 1;
    }
    return extents[0].storage != extents[1].storage
           && (extents[0].last <= extents[1].first || extents[1].last <= extents[0].first);
}
