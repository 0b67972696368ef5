/* What tensors.c and shim.c share. */
#ifndef DYNAJIT_TENSORS_H
#define DYNAJIT_TENSORS_H

#include "frame.h"

#pragma GCC visibility push(hidden)

#define DJ_RANK 64 /* torch has no limit that matters here; a higher rank is refused */
#define DJ_ANY (-1)

enum { DJ_CONTIGUOUS = 1, DJ_ALIGNED = 2, DJ_PLAIN = 4 };

struct TensorSpec {
    PyTypeObject *type;                 /* owned */
    PyObject *dtype, *device, *layout;  /* owned */
    int requires_grad, flags;
    Py_ssize_t rank;
    int64_t *sizes;                     /* owned memory; DJ_ANY: at least 2 */
    int64_t *strides;                   /* owned memory, may be NULL; DJ_ANY: any */
    bool by_shim;                       /* the numbers below are what the shim answers */
    int32_t dtype_code, device_type, device_index, layout_code;
};

/* Found by configure(torch); owned; NULL before. */
typedef struct {
    PyObject *tensor_base, *tensor_type, *parameter_type;
    PyObject *dtype, *device, *layout, *requires_grad, *shape, *itemsize;       /* attributes */
    PyObject *stride, *data_ptr, *is_conj, *is_neg, *untyped_storage;           /* methods */
    PyObject *data_ptr_name;
    PyObject *is_grad_enabled, *is_inference_mode_enabled;
} Torch;

extern Torch dj_torch;

int dj_tensor_sizes(PyObject *tensor, Py_ssize_t rank, int64_t *sizes);
int dj_tensor_strides(PyObject *tensor, Py_ssize_t rank, int64_t *strides);
int dj_tensor_address(PyObject *tensor, uintptr_t *address);

typedef struct {
    uintptr_t address;
    int64_t offset, itemsize, rank;
    const int64_t *sizes, *strides; /* borrowed from the tensor */
} ShimStorage;

/* Fill in the codes; spec->by_shim stays false where the shim has no word for a fact. */
int dj_shim_spec(TensorSpec *spec);
bool dj_shim_usable(PyObject *tensor);
/* False: a fact differs. Sizes, and strides if the specification asks for them (else NULL), are borrowed. */
bool dj_shim_facts(const TensorSpec *spec, PyObject *tensor, const int64_t **sizes, const int64_t **strides);
int dj_shim_address(PyObject *tensor, uintptr_t *address);
bool dj_shim_plain(PyObject *tensor); /* neither a conjugate nor a negative view */
bool dj_shim_storage(PyObject *tensor, ShimStorage *facts);

#pragma GCC visibility pop

#endif
