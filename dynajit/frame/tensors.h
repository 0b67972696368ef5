/* What tensors.c, shim.c, configure.c and state.c share. */
#ifndef DYNAJIT_TENSORS_H
#define DYNAJIT_TENSORS_H

#include "frame.h"

#pragma GCC visibility push(hidden)

#define DJ_RANK 64 /* torch has no limit that matters here; a higher rank is refused */
#define DJ_ANY (-1)
#define DJ_TIMES(number) (-2 - (number)) /* a stride that is stride times size of that dimension */

enum { DJ_CONTIGUOUS = 1, DJ_ALIGNED = 2, DJ_PLAIN = 4 };

struct TensorSpec {
    PyTypeObject *type;                 /* owned */
    PyObject *dtype, *device, *layout;  /* owned */
    int requires_grad, flags;
    Py_ssize_t rank;
    int64_t *sizes;                     /* owned memory; DJ_ANY: at least 2 */
    int64_t *strides;                   /* owned memory, may be NULL; DJ_ANY: any; below: DJ_TIMES(dimension) */
    bool complex;                       /* only these can be conjugate views */
    bool by_shim;                       /* the numbers below are what the shim answers */
    bool only_device;                   /* the CPU, of which there is one: its index is always -1 */
    int32_t dtype_code, device_type, device_index, layout_code;
};

/* Found by configure(torch); owned; NULL before. */
typedef struct {
    PyObject *tensor_base, *tensor_type, *parameter_type;
    PyObject *dtype, *device, *layout, *requires_grad, *shape, *itemsize;       /* attributes */
    PyObject *stride, *data_ptr, *is_conj, *is_neg, *is_contiguous, *untyped_storage; /* methods */
    PyObject *data_ptr_name;
} Torch;

extern Torch dj_torch;

int dj_tensor_sizes(PyObject *tensor, Py_ssize_t rank, int64_t *sizes);
int dj_tensor_strides(PyObject *tensor, Py_ssize_t rank, int64_t *strides);
int dj_tensor_address(PyObject *tensor, uintptr_t *address);

typedef int32_t ShimError; /* AOTITorchError; 0: success */
typedef void *Handle;      /* the address of an at::Tensor */

typedef struct {
    bool active;
    Py_ssize_t offset;
    ShimError (*get_dtype)(Handle, int32_t *);
    ShimError (*get_device_type)(Handle, int32_t *);
    ShimError (*get_device_index)(Handle, int32_t *);
    ShimError (*get_layout)(Handle, int32_t *);
    ShimError (*get_dim)(Handle, int64_t *);
    ShimError (*get_sizes)(Handle, int64_t **);
    ShimError (*get_strides)(Handle, int64_t **);
    ShimError (*get_storage_offset)(Handle, int64_t *);
    ShimError (*get_data_ptr)(Handle, void **);
    size_t (*element_size)(int32_t);
    bool (*requires_grad)(const void *);     /* c10::TensorImpl::requires_grad() const */
    bool (*is_conj)(Handle);                 /* at::native::is_conj(const Tensor &) */
    bool (*is_neg)(Handle);                  /* at::native::is_neg(const Tensor &) */
    int32_t strided;
} Shim;

extern Shim dj_shim;

/* Objects of torch and the numbers the shim uses for them. */
enum { DJ_CODES = 64 };
typedef struct {
    PyObject *object; /* owned; NULL: end of the table */
    int32_t code;
} Code;
typedef struct {
    const char *name;
    int32_t code;
    bool known;
} DeviceType;
enum { DJ_DEVICES = 5 };
extern Code dj_dtypes[DJ_CODES + 1], dj_layouts[DJ_CODES + 1];
extern DeviceType dj_device_types[DJ_DEVICES];

typedef struct {
    uintptr_t address;
    int64_t offset, itemsize, rank;
    const int64_t *sizes, *strides; /* borrowed from the tensor */
} ShimStorage;

/* Fill in the codes; spec->by_shim stays false where the shim has no word for a fact. */
int dj_shim_spec(TensorSpec *spec);
bool dj_shim_usable(PyObject *tensor);
int64_t dj_shim_size(PyObject *tensor, Py_ssize_t dim); /* -1: there is none */
/* False: a fact differs. Sizes, and strides if the specification asks for them (else NULL), are borrowed. */
bool dj_shim_facts(const TensorSpec *spec, PyObject *tensor, const int64_t **sizes, const int64_t **strides);
int dj_shim_address(PyObject *tensor, uintptr_t *address);
bool dj_shim_plain(const TensorSpec *spec, PyObject *tensor); /* neither a conjugate nor a negative view */
bool dj_shim_storage(PyObject *tensor, ShimStorage *facts);

bool dj_find_code(const Code *codes, PyObject *object, int32_t *code);
/* 1: known; 0: the shim has no word for it; -1: exception. */
int dj_find_device(PyObject *device, int32_t *device_type, int32_t *device_index);

/* configure.c: a function that one of torch's libraries exports, or NULL. */
void *dj_find_symbol(const char *name);
/* state.c: which ambient states can be asked without Python. */
void dj_find_states(PyObject *torch);

#pragma GCC visibility pop

#endif
