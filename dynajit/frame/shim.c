/* Tensor facts by libtorch's C shim (torch/csrc/inductor/aoti_torch/c/shim.h). A tensor handle is the address of the
   at::Tensor inside the Python object (torch/csrc/autograd/python_variable.h, THPVariable); configure.c finds it. */
#include "tensors.h"

Shim dj_shim;
Code dj_dtypes[DJ_CODES + 1], dj_layouts[DJ_CODES + 1];
DeviceType dj_device_types[DJ_DEVICES] = {
    {"cpu", 0, false}, {"cuda", 0, false}, {"meta", 0, false}, {"xpu", 0, false}, {"mps", 0, false},
};

/* ---- asking ---- */

static inline Handle
handle_of(PyObject *tensor)
{
    return (char *)tensor + dj_shim.offset;
}

bool
dj_shim_usable(PyObject *tensor)
{
    PyObject *type = (PyObject *)Py_TYPE(tensor);
    return dj_shim.active && (type == dj_torch.tensor_type || type == dj_torch.parameter_type);
}

int64_t
dj_shim_size(PyObject *tensor, Py_ssize_t dim)
{
    int64_t rank, *sizes;
    Handle handle = handle_of(tensor);
    return dj_shim.get_dim(handle, &rank) || dim >= rank || dj_shim.get_sizes(handle, &sizes) ? -1 : sizes[dim];
}

bool
dj_shim_facts(const TensorSpec *spec, PyObject *tensor, const int64_t **sizes, const int64_t **strides)
{
    Handle handle = handle_of(tensor);
    int32_t code;
    int64_t rank;
    int64_t *numbers;
    *strides = NULL;
    if (dj_shim.get_dtype(handle, &code) || code != spec->dtype_code || dj_shim.get_dim(handle, &rank) || rank != spec->rank
        || dj_shim.get_device_type(handle, &code) || code != spec->device_type
        || (!spec->only_device && (dj_shim.get_device_index(handle, &code) || code != spec->device_index)) || dj_shim.get_layout(handle, &code) || code != spec->layout_code
        || dj_shim.requires_grad(*(void **)handle) != (bool)spec->requires_grad || dj_shim.get_sizes(handle, &numbers)) {
        return false;
    }
    *sizes = numbers;
    if (spec->strides != NULL || (spec->flags & DJ_CONTIGUOUS)) {
        if (dj_shim.get_strides(handle, &numbers)) {
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
    if (dj_shim.get_data_ptr(handle_of(tensor), &data)) {
        return 0;
    }
    *address = (uintptr_t)data;
    return 1;
}

bool
dj_shim_plain(const TensorSpec *spec, PyObject *tensor)
{
    Handle handle = handle_of(tensor);
    return !(spec->complex && dj_shim.is_conj(handle)) && !dj_shim.is_neg(handle);
}

bool
dj_shim_storage(PyObject *tensor, ShimStorage *facts)
{
    Handle handle = handle_of(tensor);
    int32_t layout, dtype;
    int64_t *sizes, *strides;
    if (dj_shim.get_layout(handle, &layout) || layout != dj_shim.strided || dj_shim.get_dtype(handle, &dtype)
        || dj_shim.get_dim(handle, &facts->rank) || dj_shim.get_sizes(handle, &sizes) || dj_shim.get_strides(handle, &strides)
        || dj_shim.get_storage_offset(handle, &facts->offset) || dj_shim_address(tensor, &facts->address) != 1) {
        return false;
    }
    facts->sizes = sizes;
    facts->strides = strides;
    facts->itemsize = (int64_t)dj_shim.element_size(dtype);
    return true;
}

/* ---- from objects to codes ---- */

bool
dj_find_code(const Code *codes, PyObject *object, int32_t *code)
{
    for (int i = 0; codes[i].object != NULL; i++) {
        if (codes[i].object == object) {
            *code = codes[i].code;
            return true;
        }
    }
    return false;
}

/* Owned: type, index. */
int
dj_find_device(PyObject *device, int32_t *device_type, int32_t *device_index)
{
    int found = 0;
    PyObject *type = PyObject_GetAttrString(device, "type");
    PyObject *index = type == NULL ? NULL : PyObject_GetAttrString(device, "index");
    if (index == NULL || !PyUnicode_Check(type)) {
        found = -1;
        goto exit;
    }
    for (int i = 0; i < DJ_DEVICES; i++) {
        if (dj_device_types[i].known && PyUnicode_CompareWithASCIIString(type, dj_device_types[i].name) == 0) {
            *device_type = dj_device_types[i].code;
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
    if (!dj_shim.active || (type != dj_torch.tensor_type && type != dj_torch.parameter_type)
        || !dj_find_code(dj_dtypes, spec->dtype, &spec->dtype_code)
        || !dj_find_code(dj_layouts, spec->layout, &spec->layout_code)) {
        return 0;
    }
    if (spec->layout_code != dj_shim.strided && (spec->strides != NULL || spec->flags)) {
        return 0; /* asking a sparse tensor for strides makes the shim print to stderr */
    }
    const int known = dj_find_device(spec->device, &spec->device_type, &spec->device_index);
    spec->by_shim = known == 1;
    spec->only_device = known == 1 && spec->device_index == -1 && spec->device_type == dj_device_types[0].code;
    return known < 0 ? -1 : 0;
}

PyObject *
dj_shim_active(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(dj_shim.active);
}
