/* CPython 3.13. Line numbers refer to the sources of 3.13.0. */
#ifndef DYNAJIT_PY313_H
#define DYNAJIT_PY313_H

#include <internal/pycore_ceval.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_instruments.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_object.h>
#include <internal/pycore_setobject.h>

typedef _PyInterpreterFrame Frame;

/* Include/internal/pycore_frame.h:61, struct _PyInterpreterFrame. Borrowed; a frame the evaluator sees has code. */
static inline PyCodeObject *
dj_frame_code(Frame *frame)
{
    return (PyCodeObject *)frame->f_executable;
}

static inline PyFunctionObject *
dj_frame_func(Frame *frame)
{
    return (PyFunctionObject *)frame->f_funcobj;
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

/* Python/ceval.c, _PyEval_FrameClearAndPop, exported for the JIT (Include/internal/pycore_ceval.h:259): the evaluator clears
   and pops the frame it was given. */
static inline void
dj_frame_drop(PyThreadState *tstate, Frame *frame, Py_ssize_t Py_UNUSED(nslots))
{
    _PyEval_FrameClearAndPop(tstate, frame);
}

/* Include/internal/pycore_interp.h, `monitors`: tools 6 and 7 stand for sys.setprofile and sys.settrace of any thread,
   so those are asked of this thread (Include/cpython/pystate.h:128). Local events are kept with the code. */
static inline bool
dj_tracing(PyThreadState *tstate, PyCodeObject *code)
{
    const uint8_t tools = (1 << PY_MONITORING_SYS_PROFILE_ID) - 1;
    uint8_t active = 0;
    if (tstate->c_tracefunc != NULL || tstate->c_profilefunc != NULL) {
        return true;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(tstate->interp->monitors.tools); i++) {
        active |= tstate->interp->monitors.tools[i];
    }
    if (code->_co_monitoring != NULL) {
        for (size_t i = 0; i < Py_ARRAY_LENGTH(code->_co_monitoring->local_monitors.tools); i++) {
            active |= code->_co_monitoring->local_monitors.tools[i];
        }
    }
    return (active & tools) != 0;
}

/* Include/internal/pycore_dict.h:254, DICT_NEXT_VERSION: one counter for all dicts; the low bits say who watches. A dict
   that shares the inline values of an instance keeps its tag when an attribute is written through the instance
   (Objects/dictobject.c, store_instance_attr_lock_held drops the new tag): 0, no stamp. */
static inline uint64_t
dj_dict_version(PyObject *dict)
{
    PyDictObject *mp = (PyDictObject *)dict;
    return mp->ma_values != NULL && mp->ma_values->embedded ? 0 : mp->ma_version_tag;
}

/* Objects/typeobject.c, PyType_Modified: the flag goes and the tag becomes 0; assign_version_tag never reuses one. */
static inline unsigned int
dj_type_version(PyTypeObject *type)
{
    return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

/* Include/internal/pycore_object.h:736, _PyObject_InlineValues: valid until a dict takes over (then it may share them).
   The values and their keys, or NULL. */
static inline PyObject **
dj_inline_values(PyObject *obj, PyDictKeysObject **keys)
{
    if (!PyType_HasFeature(Py_TYPE(obj), Py_TPFLAGS_INLINE_VALUES)) {
        return NULL;
    }
    PyDictValues *values = _PyObject_InlineValues(obj);
    if (!values->valid) {
        return NULL;
    }
    *keys = ((PyHeapTypeObject *)Py_TYPE(obj))->ht_cached_keys;
    return values->values;
}

/* Objects/object.c, _PyObject_GetDictPtr, which would make the dict. Borrowed, or NULL. */
static inline PyObject *
dj_instance_dict(PyObject *obj)
{
    if (PyType_HasFeature(Py_TYPE(obj), Py_TPFLAGS_MANAGED_DICT)) {
        return (PyObject *)_PyObject_ManagedDictPointer(obj)->dict;
    }
    PyObject **pointer = _PyObject_GetDictPtr(obj);
    return pointer == NULL ? NULL : *pointer;
}

/* Include/cpython/ceval.h and Include/cpython/code.h. */
#define dj_code_extra_index PyUnstable_Eval_RequestCodeExtraIndex
#define dj_code_extra_get PyUnstable_Code_GetExtra
#define dj_code_extra_set PyUnstable_Code_SetExtra

/* Owned; NULL without an exception. */
#define dj_exception_take PyErr_GetRaisedException
/* Steals the reference. */
#define dj_exception_put PyErr_SetRaisedException

/* Include/cpython/pystate.h:226, Py_C_RECURSION_LIMIT (10000 on x86-64): Python calls cost of it only under an evaluator. */
static inline bool
dj_recursion_short(PyThreadState *tstate)
{
    return tstate->c_recursion_remaining < Py_C_RECURSION_LIMIT / 2;
}

#define DJ_UNICODE_ENTRIES(keys) DK_UNICODE_ENTRIES(keys)

#endif
