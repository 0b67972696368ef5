/* CPython 3.11. Line numbers refer to the sources of 3.11.7. */
#ifndef DYNAJIT_PY311_H
#define DYNAJIT_PY311_H

#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_object.h>

typedef _PyInterpreterFrame Frame;

/* Include/internal/pycore_frame.h:47, struct _PyInterpreterFrame. Borrowed. */
static inline PyCodeObject *
dj_frame_code(Frame *frame)
{
    return frame->f_code;
}

static inline PyFunctionObject *
dj_frame_func(Frame *frame)
{
    return frame->f_func;
}

static inline PyObject **
dj_frame_slots(Frame *frame)
{
    return frame->localsplus;
}

static inline bool
dj_frame_of_generator(Frame *frame)
{
    return frame->owner != FRAME_OWNED_BY_THREAD;
}

/* Python/ceval.c, _PyEval_Vector: the caller clears and pops the frame after the evaluator returns, so it is enough to
   let go of the arguments; the slots of a frame that never ran are empty but for these. */
static inline void
dj_frame_drop(PyThreadState *Py_UNUSED(tstate), Frame *frame, Py_ssize_t nslots)
{
    for (Py_ssize_t i = 0; i < nslots; i++) {
        Py_CLEAR(frame->localsplus[i]);
    }
}

/* Include/cpython/pystate.h:113. */
static inline bool
dj_tracing(PyThreadState *tstate, PyCodeObject *Py_UNUSED(code))
{
    return tstate->c_tracefunc != NULL || tstate->c_profilefunc != NULL;
}

/* Include/internal/pycore_dict.h:155, DICT_NEXT_VERSION: one counter for all dicts, so a tag is never used twice. */
static inline uint64_t
dj_dict_version(PyObject *dict)
{
    return ((PyDictObject *)dict)->ma_version_tag;
}

/* Objects/typeobject.c, PyType_Modified: the flag goes and the tag becomes 0; assign_version_tag never reuses one. */
static inline unsigned int
dj_type_version(PyTypeObject *type)
{
    return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

/* Include/internal/pycore_object.h:253, _PyObject_ValuesPointer. The values and their keys, or NULL. */
static inline PyObject **
dj_inline_values(PyObject *obj, PyDictKeysObject **keys)
{
    if (!PyType_HasFeature(Py_TYPE(obj), Py_TPFLAGS_MANAGED_DICT)) {
        return NULL;
    }
    PyDictValues *values = *_PyObject_ValuesPointer(obj);
    *keys = ((PyHeapTypeObject *)Py_TYPE(obj))->ht_cached_keys;
    return values == NULL ? NULL : values->values;
}

/* Objects/object.c, _PyObject_GetDictPtr, which would make the dict. Borrowed, or NULL. */
static inline PyObject *
dj_instance_dict(PyObject *obj)
{
    if (PyType_HasFeature(Py_TYPE(obj), Py_TPFLAGS_MANAGED_DICT)) {
        return *_PyObject_ManagedDictPointer(obj);
    }
    PyObject **pointer = _PyObject_GetDictPtr(obj);
    return pointer == NULL ? NULL : *pointer;
}

/* Include/cpython/ceval.h and Include/cpython/code.h. */
#define dj_code_extra_index _PyEval_RequestCodeExtraIndex
#define dj_code_extra_get _PyCode_GetExtra
#define dj_code_extra_set _PyCode_SetExtra

/* Owned; NULL without an exception. Python/errors.c, PyErr_Fetch: three words that are one object once normalised. */
static inline PyObject *
dj_exception_take(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL) {
        return NULL;
    }
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL && value != NULL) {
        PyException_SetTraceback(value, traceback);
    }
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

/* Steals the reference. */
static inline void
dj_exception_put(PyObject *exception)
{
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(exception)), exception, PyException_GetTraceback(exception));
}

/* 3.11 counts Python and C frames together: what is left is what Python code would have left, too. */
static inline bool
dj_recursion_short(PyThreadState *Py_UNUSED(tstate))
{
    return false;
}

/* `dj_inline_values` reads the live values: when the dict was made, these are gone (values pointer NULL). */
#define DJ_UNICODE_ENTRIES(keys) DK_UNICODE_ENTRIES(keys)

#endif
