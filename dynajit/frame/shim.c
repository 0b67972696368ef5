/* libtorch's C shim, found at run time. A tensor handle is the address of the at::Tensor inside the Python object
   (torch/csrc/autograd/python_variable.h, THPVariable); where that is differs between versions of torch, so the offset
   is found by comparing answers with Python's on a few tensors. Where anything disagrees the getters are used. */
#include "tensors.h"
#include <dlfcn.h>
#include <unistd.h>

typedef int32_t Error; /* AOTITorchError; 0: success */
typedef void *Handle;

static struct {
    bool active;
    Py_ssize_t offset;
    Error (*get_dtype)(Handle, int32_t *);
    Error (*get_device_type)(Handle, int32_t *);
    Error (*get_device_index)(Handle, int32_t *);
    Error (*get_layout)(Handle, int32_t *);
    Error (*get_dim)(Handle, int64_t *);
    Error (*get_sizes)(Handle, int64_t **);
    Error (*get_strides)(Handle, int64_t **);
    Error (*get_storage_offset)(Handle, int64_t *);
    Error (*get_data_ptr)(Handle, void **);
    bool (*grad_mode_is_enabled)(void);
    size_t (*element_size)(int32_t);
    bool (*requires_grad)(const void *);     /* c10::TensorImpl::requires_grad() const */
    bool (*inference_mode_is_enabled)(void); /* c10::InferenceMode::is_enabled() */
    bool (*is_conj)(Handle);                 /* at::native::is_conj(const Tensor &) */
    bool (*is_neg)(Handle);                  /* at::native::is_neg(const Tensor &) */
    int32_t strided;
} shim;

static const struct {
    const char *symbol;
    void *where;
} symbols[] = {
    {"aoti_torch_get_dtype", &shim.get_dtype},
    {"aoti_torch_get_device_type", &shim.get_device_type},
    {"aoti_torch_get_device_index", &shim.get_device_index},
    {"aoti_torch_get_layout", &shim.get_layout},
    {"aoti_torch_get_dim", &shim.get_dim},
    {"aoti_torch_get_sizes", &shim.get_sizes},
    {"aoti_torch_get_strides", &shim.get_strides},
    {"aoti_torch_get_storage_offset", &shim.get_storage_offset},
    {"aoti_torch_get_data_ptr", &shim.get_data_ptr},
    {"aoti_torch_grad_mode_is_enabled", &shim.grad_mode_is_enabled},
    {"aoti_torch_dtype_element_size", &shim.element_size},
    /* C++ functions of libtorch_cpu and libc10 that the shim has no name for */
    {"_ZN2at6native7is_conjERKNS_6TensorE", &shim.is_conj},
    {"_ZN2at6native6is_negERKNS_6TensorE", &shim.is_neg},
    {"_ZNK3c1010TensorImpl13requires_gradEv", &shim.requires_grad},
    {"_ZN3c1013InferenceMode10is_enabledEv", &shim.inference_mode_is_enabled},
};

/* Objects of torch and the numbers the shim uses for them. */
typedef struct {
    PyObject *object; /* owned */
    int32_t code;
} Code;

enum { MOST_CODES = 64 };
static Code dtypes[MOST_CODES], layouts[MOST_CODES];
static struct {
    const char *name;
    int32_t code;
    bool known;
} device_types[] = {{"cpu", 0, false}, {"cuda", 0, false}, {"meta", 0, false}, {"xpu", 0, false}, {"mps", 0, false}};

static const char *const dtype_names[] = {
    "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu", "bfloat16", "float16",
    "float32", "float64", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "bool", "complex32",
    "complex64", "complex128",
};
static const char *const layout_names[] = {
    "strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn", "jagged",
};

/* ---- asking ---- */

static inline Handle
handle_of(PyObject *tensor)
{
    return (char *)tensor + shim.offset;
}

bool
dj_shim_usable(PyObject *tensor)
{
    PyObject *type = (PyObject *)Py_TYPE(tensor);
    return shim.active && (type == dj_torch.tensor_type || type == dj_torch.parameter_type);
}

bool
dj_shim_facts(const TensorSpec *spec, PyObject *tensor, const int64_t **sizes, const int64_t **strides)
{
    Handle handle = handle_of(tensor);
    int32_t code;
    int64_t rank;
    int64_t *numbers;
    *strides = NULL;
    if (shim.get_dtype(handle, &code) || code != spec->dtype_code || shim.get_dim(handle, &rank) || rank != spec->rank
        || shim.get_device_type(handle, &code) || code != spec->device_type || shim.get_device_index(handle, &code)
        || code != spec->device_index || shim.get_layout(handle, &code) || code != spec->layout_code
        || shim.requires_grad(*(void **)handle) != (bool)spec->requires_grad || shim.get_sizes(handle, &numbers)) {
        return false;
    }
    *sizes = numbers;
    if (spec->strides != NULL || (spec->flags & DJ_CONTIGUOUS)) {
        if (shim.get_strides(handle, &numbers)) {
            return false;
        }
        *strides = numbers;
    }
    return true;
}

int
dj_shim_address(PyObject *tensor, uintptr_t *address)
{
    void *data;
    if (shim.get_data_ptr(handle_of(tensor), &data)) {
        return 0;
    }
    *address = (uintptr_t)data;
    return 1;
}

bool
dj_shim_plain(PyObject *tensor)
{
    Handle handle = handle_of(tensor);
    return !shim.is_conj(handle) && !shim.is_neg(handle);
}

bool
dj_shim_storage(PyObject *tensor, ShimStorage *facts)
{
    Handle handle = handle_of(tensor);
    int32_t layout, dtype;
    int64_t *sizes, *strides;
    if (shim.get_layout(handle, &layout) || layout != shim.strided || shim.get_dtype(handle, &dtype)
        || shim.get_dim(handle, &facts->rank) || shim.get_sizes(handle, &sizes) || shim.get_strides(handle, &strides)
        || shim.get_storage_offset(handle, &facts->offset) || dj_shim_address(tensor, &facts->address) != 1) {
        return false;
    }
    facts->sizes = sizes;
    facts->strides = strides;
    facts->itemsize = (int64_t)shim.element_size(dtype);
    return true;
}

enum { GRAD_MODE = 1, INFERENCE_MODE = 2 };

int
dj_known_state(PyObject *callable)
{
    if (shim.active && callable == dj_torch.is_grad_enabled) {
        return GRAD_MODE;
    }
    if (shim.active && callable == dj_torch.is_inference_mode_enabled) {
        return INFERENCE_MODE;
    }
    return 0;
}

int
dj_state_value(int known)
{
    return known == GRAD_MODE ? shim.grad_mode_is_enabled() : shim.inference_mode_is_enabled();
}

/* ---- from objects to codes ---- */

static bool
find_code(const Code *codes, PyObject *object, int32_t *code)
{
    for (int i = 0; i < MOST_CODES && codes[i].object != NULL; i++) {
        if (codes[i].object == object) {
            *code = codes[i].code;
            return true;
        }
    }
    return false;
}

/* 1: known; 0: the shim has no word for it; -1: exception. Owned: type, index. */
static int
find_device(PyObject *device, int32_t *device_type, int32_t *device_index)
{
    int found = 0;
    PyObject *type = PyObject_GetAttrString(device, "type");
    PyObject *index = type == NULL ? NULL : PyObject_GetAttrString(device, "index");
    if (index == NULL || !PyUnicode_Check(type)) {
        found = -1;
        goto exit;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(device_types); i++) {
        if (device_types[i].known && PyUnicode_CompareWithASCIIString(type, device_types[i].name) == 0) {
            *device_type = device_types[i].code;
            *device_index = index == Py_None ? -1 : (int32_t)PyLong_AsLong(index);
            found = PyErr_Occurred() ? -1 : 1;
        }
    }
exit:
    Py_XDECREF(type);
    Py_XDECREF(index);
    return found;
}

int
dj_shim_spec(TensorSpec *spec)
{
    PyObject *type = (PyObject *)spec->type;
    if (!shim.active || (type != dj_torch.tensor_type && type != dj_torch.parameter_type)
        || !find_code(dtypes, spec->dtype, &spec->dtype_code)
        || !find_code(layouts, spec->layout, &spec->layout_code)) {
        return 0;
    }
    if (spec->layout_code != shim.strided && (spec->strides != NULL || spec->flags)) {
        return 0; /* asking a sparse tensor for strides makes the shim print to stderr */
    }
    const int known = find_device(spec->device, &spec->device_type, &spec->device_index);
    spec->by_shim = known == 1;
    return known < 0 ? -1 : 0;
}

/* ---- finding it ---- */

static void *
find_symbol(void *library, const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    return found == NULL && library != NULL ? dlsym(library, name) : found;
}

/* A library that torch has loaded, or NULL. */
static void *
find_library(PyObject *torch, const char *name)
{
    /* Owned: file */
    char path[4096];
    void *library = NULL;
    PyObject *file = PyObject_GetAttrString(torch, "__file__");
    const char *text = file == NULL ? NULL : PyUnicode_AsUTF8(file);
    const char *slash = text == NULL ? NULL : strrchr(text, '/');
    if (slash != NULL && (size_t)(slash - text) + strlen(name) + 8 < sizeof(path)) {
        PyOS_snprintf(path, sizeof(path), "%.*s/lib/%s", (int)(slash - text), text, name);
        library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    }
    Py_XDECREF(file);
    PyErr_Clear();
    return library;
}

#ifdef __APPLE__
#define LIBRARY(name) name ".dylib"
#else
#define LIBRARY(name) name ".so"
#endif

static bool
find_functions(PyObject *torch)
{
    void *cpu = find_library(torch, LIBRARY("libtorch_cpu"));
    void *c10 = find_library(torch, LIBRARY("libc10"));
    for (size_t i = 0; i < Py_ARRAY_LENGTH(symbols); i++) {
        void *found = find_symbol(cpu, symbols[i].symbol);
        if (found == NULL) {
            found = find_symbol(c10, symbols[i].symbol);
        }
        if (found == NULL) {
            return false;
        }
        memcpy(symbols[i].where, &found, sizeof(found));
    }
    return true;
}

static bool
find_constant(void *library, const char *prefix, const char *name, int32_t *code)
{
    char symbol[80];
    int32_t (*constant)(void) = NULL;
    PyOS_snprintf(symbol, sizeof(symbol), "%s%s", prefix, name);
    void *found = find_symbol(library, symbol);
    memcpy(&constant, &found, sizeof(found));
    if (constant != NULL) {
        *code = constant();
    }
    return constant != NULL;
}

static void
find_codes(PyObject *torch, void *library, const char *prefix, const char *const *names, size_t count, Code *codes)
{
    int used = 0;
    for (int i = 0; i < MOST_CODES; i++) {
        Py_CLEAR(codes[i].object);
    }
    for (size_t i = 0; i < count; i++) {
        PyObject *object = PyObject_GetAttrString(torch, names[i]);
        if (object == NULL) {
            PyErr_Clear();
        }
        else if (find_constant(library, prefix, names[i], &codes[used].code)) {
            codes[used++].object = object;
        }
        else {
            Py_DECREF(object);
        }
    }
}

static bool
find_constants(PyObject *torch)
{
    void *cpu = find_library(torch, LIBRARY("libtorch_cpu"));
    find_codes(torch, cpu, "aoti_torch_dtype_", dtype_names, Py_ARRAY_LENGTH(dtype_names), dtypes);
    find_codes(torch, cpu, "aoti_torch_layout_", layout_names, Py_ARRAY_LENGTH(layout_names), layouts);
    for (size_t i = 0; i < Py_ARRAY_LENGTH(device_types); i++) {
        device_types[i].known = find_constant(cpu, "aoti_torch_device_type_", device_types[i].name,
                                              &device_types[i].code);
    }
    return find_constant(cpu, "aoti_torch_layout_", "strided", &shim.strided);
}

/* ---- calibration ---- */

/* Whether memory can be read, asked of the kernel: writing from it to a pipe fails instead of crashing. */
static bool
readable(const void *address, size_t size)
{
    int ends[2];
    if (((uintptr_t)address & (sizeof(void *) - 1)) != 0 || address == NULL || pipe(ends) != 0) {
        return false;
    }
    const bool result = write(ends[1], address, size) == (ssize_t)size;
    close(ends[0]);
    close(ends[1]);
    return result;
}

/* An at::Tensor is one pointer to a TensorImpl, whose first word is a vtable inside one of torch's libraries. */
static bool
looks_like_tensor(PyObject *tensor, Py_ssize_t offset)
{
    Dl_info info;
    void *impl = *(void **)((char *)tensor + offset);
    if (!readable(impl, 8 * sizeof(void *))) {
        return false;
    }
    void *vtable = *(void **)impl;
    return readable(vtable, sizeof(void *)) && dladdr(vtable, &info) != 0 && info.dli_fname != NULL
           && (strstr(info.dli_fname, "c10") != NULL || strstr(info.dli_fname, "torch") != NULL);
}

/* Ask the shim everything, and Python the same. */
static bool
agrees(PyObject *tensor)
{
    /* Owned: dtype, device, layout, grad, offset, itemsize, rank, conj, neg */
    TensorSpec spec = {0};
    int64_t sizes[DJ_RANK], strides[DJ_RANK];
    const int64_t *seen_sizes, *seen_strides;
    uintptr_t address, seen_address;
    bool result = false;
    PyObject *dtype = PyObject_GetAttrString(tensor, "dtype");
    PyObject *device = PyObject_GetAttrString(tensor, "device");
    PyObject *layout = PyObject_GetAttrString(tensor, "layout");
    PyObject *grad = PyObject_GetAttrString(tensor, "requires_grad");
    PyObject *offset = PyObject_CallMethod(tensor, "storage_offset", NULL);
    PyObject *itemsize = PyObject_CallMethod(tensor, "element_size", NULL);
    PyObject *rank = PyObject_CallMethod(tensor, "dim", NULL);
    PyObject *conj = PyObject_CallMethod(tensor, "is_conj", NULL);
    PyObject *neg = PyObject_CallMethod(tensor, "is_neg", NULL);
    if (dtype == NULL || device == NULL || layout == NULL || grad == NULL || offset == NULL || itemsize == NULL
        || rank == NULL || conj == NULL || neg == NULL || !find_code(dtypes, dtype, &spec.dtype_code)
        || !find_code(layouts, layout, &spec.layout_code)
        || find_device(device, &spec.device_type, &spec.device_index) != 1) {
        goto exit;
    }
    spec.rank = PyLong_AsSsize_t(rank);
    spec.requires_grad = grad == Py_True;
    spec.flags = DJ_CONTIGUOUS;
    if (spec.rank < 0 || spec.rank > DJ_RANK || dj_tensor_sizes(tensor, spec.rank, sizes) != 1
        || dj_tensor_strides(tensor, spec.rank, strides) != 1 || dj_tensor_address(tensor, &address) != 1) {
        goto exit;
    }
    if (!dj_shim_facts(&spec, tensor, &seen_sizes, &seen_strides) || dj_shim_address(tensor, &seen_address) != 1) {
        goto exit;
    }
    ShimStorage storage;
    result = memcmp(sizes, seen_sizes, (size_t)spec.rank * sizeof(int64_t)) == 0
             && memcmp(strides, seen_strides, (size_t)spec.rank * sizeof(int64_t)) == 0 && address == seen_address
             && dj_shim_storage(tensor, &storage) && storage.offset == PyLong_AsLongLong(offset)
             && storage.itemsize == PyLong_AsLongLong(itemsize)
             && shim.is_conj(handle_of(tensor)) == (conj == Py_True)
             && shim.is_neg(handle_of(tensor)) == (neg == Py_True);
exit:
    Py_XDECREF(dtype);
    Py_XDECREF(device);
    Py_XDECREF(layout);
    Py_XDECREF(grad);
    Py_XDECREF(offset);
    Py_XDECREF(itemsize);
    Py_XDECREF(rank);
    Py_XDECREF(conj);
    Py_XDECREF(neg);
    PyErr_Clear();
    return result;
}

/* Tensors that differ in each fact. New reference. */
static PyObject *
samples(PyObject *torch)
{
    static const char program[] =
        "[torch.empty(2, 3), torch.empty(4, dtype=torch.int64), torch.empty(5, 1, 7, dtype=torch.float64).transpose(0, 2),"
        " torch.empty((), dtype=torch.bool), torch.empty(6, 2, dtype=torch.bfloat16)[1:, 1:],"
        " torch.nn.Parameter(torch.empty(3, 3)), torch.empty(0, 2, dtype=torch.complex64),"
        " torch.empty(2, dtype=torch.complex64).conj(), torch.empty(2, dtype=torch.complex64).conj().imag]";
    /* Owned: globals, result */
    PyObject *globals = Py_BuildValue("{sOsO}", "torch", torch, "__builtins__", PyEval_GetBuiltins());
    PyObject *result = globals == NULL ? NULL : PyRun_String(program, Py_eval_input, globals, globals);
    Py_XDECREF(globals);
    return result;
}

static bool
modes_agree(PyObject *torch)
{
    PyObject *value = PyObject_CallMethod(torch, "is_grad_enabled", NULL);
    bool same = value != NULL && (value == Py_True) == shim.grad_mode_is_enabled();
    Py_XDECREF(value);
    value = PyObject_CallMethod(torch, "is_inference_mode_enabled", NULL);
    same = same && value != NULL && (value == Py_True) == shim.inference_mode_is_enabled();
    Py_XDECREF(value);
    PyErr_Clear();
    return same;
}

static bool
calibrate(PyObject *torch)
{
    /* Owned: list */
    bool found = false;
    const Py_ssize_t size = ((PyTypeObject *)dj_torch.tensor_base)->tp_basicsize;
    PyObject *list = samples(torch);
    if (list == NULL) {
        PyErr_Clear();
        return false;
    }
    for (Py_ssize_t offset = sizeof(PyObject); !found && offset + (Py_ssize_t)sizeof(void *) <= size;
         offset += sizeof(void *)) {
        shim.offset = offset;
        found = true;
        for (Py_ssize_t i = 0; found && i < PyList_GET_SIZE(list); i++) {
            PyObject *tensor = PyList_GET_ITEM(list, i);
            found = looks_like_tensor(tensor, offset) && agrees(tensor);
        }
    }
    Py_DECREF(list);
    return found && modes_agree(torch);
}

/* ---- configure ---- */

static int
find(PyObject *owner, const char *name, PyObject **where, bool optional)
{
    PyObject *value = PyObject_GetAttrString(owner, name);
    if (value == NULL && optional && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        value = Py_NewRef(Py_None);
    }
    if (value == NULL) {
        return -1;
    }
    Py_XSETREF(*where, value);
    return 0;
}

static int
find_torch(PyObject *torch)
{
    /* Owned: core, nn */
    int result = -1;
    PyObject *nn = NULL;
    PyObject *core = PyObject_GetAttrString(torch, "_C");
    if (core == NULL || (nn = PyObject_GetAttrString(torch, "nn")) == NULL) {
        goto exit;
    }
    const struct {
        PyObject **where;
        const char *name;
    } attributes[] = {
        {&dj_torch.dtype, "dtype"}, {&dj_torch.device, "device"}, {&dj_torch.layout, "layout"},
        {&dj_torch.requires_grad, "requires_grad"}, {&dj_torch.shape, "shape"}, {&dj_torch.itemsize, "itemsize"},
        {&dj_torch.stride, "stride"}, {&dj_torch.data_ptr, "data_ptr"}, {&dj_torch.is_conj, "is_conj"},
        {&dj_torch.is_neg, "is_neg"}, {&dj_torch.untyped_storage, "untyped_storage"},
    };
    if (find(core, "TensorBase", &dj_torch.tensor_base, false) < 0
        || find(torch, "Tensor", &dj_torch.tensor_type, false) < 0
        || find(nn, "Parameter", &dj_torch.parameter_type, false) < 0
        || find(torch, "is_grad_enabled", &dj_torch.is_grad_enabled, true) < 0
        || find(torch, "is_inference_mode_enabled", &dj_torch.is_inference_mode_enabled, true) < 0) {
        goto exit;
    }
    if (!PyType_Check(dj_torch.tensor_base) || !PyType_Check(dj_torch.tensor_type)) {
        PyErr_SetString(PyExc_TypeError, "torch.Tensor is not a type");
        goto exit;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(attributes); i++) {
        if (find(dj_torch.tensor_type, attributes[i].name, attributes[i].where, false) < 0) {
            goto exit;
        }
    }
    Py_XSETREF(dj_torch.data_ptr_name, PyUnicode_InternFromString("data_ptr"));
    result = dj_torch.data_ptr_name == NULL ? -1 : 0;
exit:
    Py_XDECREF(core);
    Py_XDECREF(nn);
    return result;
}

PyObject *
dj_configure(PyObject *Py_UNUSED(module), PyObject *torch)
{
    const char *forced_off = getenv("DYNAJIT_NO_SHIM");
    if (find_torch(torch) < 0) {
        return NULL;
    }
    shim.active = false;
    if ((forced_off == NULL || strcmp(forced_off, "1") != 0) && find_functions(torch) && find_constants(torch)) {
        shim.active = calibrate(torch);
    }
    return PyBool_FromLong(shim.active);
}

PyObject *
dj_shim_active(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(shim.active);
}
