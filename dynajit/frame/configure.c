/* configure(torch): find what TENSOR and STATE checks need in the torch that is loaded.

   Where the at::Tensor is in a Python tensor differs between versions of torch, so its offset is found by comparing the
   shim's answers with Python's on tensors that differ in each fact. Where anything disagrees the getters are used. */
#include "tensors.h"
#include <dlfcn.h>
#include <unistd.h>

static const struct {
    const char *symbol;
    void *where;
} symbols[] = {
    {"aoti_torch_get_dtype", &dj_shim.get_dtype},
    {"aoti_torch_get_device_type", &dj_shim.get_device_type},
    {"aoti_torch_get_device_index", &dj_shim.get_device_index},
    {"aoti_torch_get_layout", &dj_shim.get_layout},
    {"aoti_torch_get_dim", &dj_shim.get_dim},
    {"aoti_torch_get_sizes", &dj_shim.get_sizes},
    {"aoti_torch_get_strides", &dj_shim.get_strides},
    {"aoti_torch_get_storage_offset", &dj_shim.get_storage_offset},
    {"aoti_torch_get_data_ptr", &dj_shim.get_data_ptr},
    {"aoti_torch_dtype_element_size", &dj_shim.element_size},
    /* C++ functions of libtorch_cpu and libc10 that the shim has no name for */
    {"_ZN2at6native7is_conjERKNS_6TensorE", &dj_shim.is_conj},
    {"_ZN2at6native6is_negERKNS_6TensorE", &dj_shim.is_neg},
    {"_ZNK3c1010TensorImpl13requires_gradEv", &dj_shim.requires_grad},
};

static const char *const dtype_names[] = {
    "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu", "bfloat16", "float16",
    "float32", "float64", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "bool", "complex32",
    "complex64", "complex128",
};
static const char *const layout_names[] = {
    "strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn", "jagged",
};

/* ---- finding it ---- */

#ifdef __APPLE__
#define LIBRARY(name) name ".dylib"
#else
#define LIBRARY(name) name ".so"
#endif

static void *libraries[3]; /* handles of what torch has loaded; NULL: not found */

static void
find_libraries(PyObject *torch)
{
    /* Owned: file */
    static const char *const names[] = {LIBRARY("libtorch_cpu"), LIBRARY("libc10"), LIBRARY("libtorch_python")};
    char path[4096];
    PyObject *file = PyObject_GetAttrString(torch, "__file__");
    const char *text = file == NULL ? NULL : PyUnicode_AsUTF8(file);
    const char *slash = text == NULL ? NULL : strrchr(text, '/');
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        libraries[i] = NULL;
        if (slash != NULL && (size_t)(slash - text) + strlen(names[i]) + 8 < sizeof(path)) {
            PyOS_snprintf(path, sizeof(path), "%.*s/lib/%s", (int)(slash - text), text, names[i]);
            libraries[i] = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
        }
    }
    Py_XDECREF(file);
    PyErr_Clear();
}

void *
dj_find_symbol(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    for (size_t i = 0; found == NULL && i < Py_ARRAY_LENGTH(libraries); i++) {
        found = libraries[i] == NULL ? NULL : dlsym(libraries[i], name);
    }
    return found;
}

static bool
find_functions(void)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(symbols); i++) {
        void *found = dj_find_symbol(symbols[i].symbol);
        if (found == NULL) {
            return false;
        }
        memcpy(symbols[i].where, &found, sizeof(found));
    }
    return true;
}

static bool
find_constant(const char *prefix, const char *name, int32_t *code)
{
    char symbol[80];
    int32_t (*constant)(void) = NULL;
    PyOS_snprintf(symbol, sizeof(symbol), "%s%s", prefix, name);
    void *found = dj_find_symbol(symbol);
    memcpy(&constant, &found, sizeof(found));
    if (constant != NULL) {
        *code = constant();
    }
    return constant != NULL;
}

static void
find_codes(PyObject *torch, const char *prefix, const char *const *names, size_t count, Code *codes)
{
    int used = 0;
    for (int i = 0; i < DJ_CODES; i++) {
        Py_CLEAR(codes[i].object);
    }
    for (size_t i = 0; i < count; i++) {
        PyObject *object = PyObject_GetAttrString(torch, names[i]);
        if (object == NULL) {
            PyErr_Clear();
        }
        else if (find_constant(prefix, names[i], &codes[used].code)) {
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
    find_codes(torch, "aoti_torch_dtype_", dtype_names, Py_ARRAY_LENGTH(dtype_names), dj_dtypes);
    find_codes(torch, "aoti_torch_layout_", layout_names, Py_ARRAY_LENGTH(layout_names), dj_layouts);
    for (int i = 0; i < DJ_DEVICES; i++) {
        dj_device_types[i].known = find_constant("aoti_torch_device_type_", dj_device_types[i].name,
                                                 &dj_device_types[i].code);
    }
    return find_constant("aoti_torch_layout_", "strided", &dj_shim.strided);
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
        || rank == NULL || conj == NULL || neg == NULL || !dj_find_code(dj_dtypes, dtype, &spec.dtype_code)
        || !dj_find_code(dj_layouts, layout, &spec.layout_code)
        || dj_find_device(device, &spec.device_type, &spec.device_index) != 1) {
        goto exit;
    }
    spec.rank = PyLong_AsSsize_t(rank);
    spec.requires_grad = grad == Py_True;
    spec.flags = DJ_CONTIGUOUS;
    spec.complex = true;
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
             && dj_shim_plain(&spec, tensor) == (conj == Py_False && neg == Py_False);
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
        dj_shim.offset = offset;
        found = true;
        for (Py_ssize_t i = 0; found && i < PyList_GET_SIZE(list); i++) {
            PyObject *tensor = PyList_GET_ITEM(list, i);
            found = looks_like_tensor(tensor, offset) && agrees(tensor);
        }
    }
    Py_DECREF(list);
    return found;
}

/* ---- configure ---- */

static int
find(PyObject *owner, const char *name, PyObject **where)
{
    PyObject *value = PyObject_GetAttrString(owner, name);
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
        {&dj_torch.is_neg, "is_neg"}, {&dj_torch.is_contiguous, "is_contiguous"},
        {&dj_torch.untyped_storage, "untyped_storage"},
    };
    if (find(core, "TensorBase", &dj_torch.tensor_base) < 0
        || find(torch, "Tensor", &dj_torch.tensor_type) < 0
        || find(nn, "Parameter", &dj_torch.parameter_type) < 0) {
        goto exit;
    }
    if (!PyType_Check(dj_torch.tensor_base) || !PyType_Check(dj_torch.tensor_type)) {
        PyErr_SetString(PyExc_TypeError, "torch.Tensor is not a type");
        goto exit;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(attributes); i++) {
        if (find(dj_torch.tensor_type, attributes[i].name, attributes[i].where) < 0) {
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
    dj_shim.active = false;
    if (forced_off == NULL || strcmp(forced_off, "1") != 0) {
        find_libraries(torch);
        dj_shim.active = find_functions() && find_constants(torch) && calibrate(torch);
    }
    dj_find_states(torch);
    return PyBool_FromLong(dj_shim.active);
}
