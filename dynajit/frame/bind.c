/* Binding call arguments to the slots of a function, by the rules of CPython (Python/ceval.c, initialize_locals). */
#include "frame.h"

Py_ssize_t
dj_slot_count(PyCodeObject *code)
{
    return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0)
           + ((code->co_flags & CO_VARKEYWORDS) != 0);
}

/* The parameter called `name` that may be given by keyword; -1: none, -2: no answer without running user code. */
static Py_ssize_t
find_parameter(PyCodeObject *code, PyObject *name)
{
    PyObject *names = code->co_localsplusnames;
    const Py_ssize_t total = code->co_argcount + code->co_kwonlyargcount;
    for (Py_ssize_t i = code->co_posonlyargcount; i < total; i++) {
        if (PyTuple_GET_ITEM(names, i) == name) {
            return i;
        }
    }
    if (!PyUnicode_Check(name)) {
        return -2;
    }
    for (Py_ssize_t i = code->co_posonlyargcount; i < total; i++) {
        if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), name) == 0) {
            return i;
        }
    }
    return -1;
}

static bool
bind_keywords(PyCodeObject *code, PyObject *const *values, PyObject *kwnames, PyObject **slots, PyObject *kwdict)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        const Py_ssize_t i = find_parameter(code, name);
        if (i >= 0) {
            if (slots[i] != NULL) {
                return false;
            }
            slots[i] = Py_NewRef(values[k]);
        }
        else if (i == -2 || kwdict == NULL || PyDict_SetItem(kwdict, name, values[k]) < 0) {
            return false;
        }
    }
    return true;
}

static bool
bind_defaults(PyFunctionObject *func, PyCodeObject *code, PyObject **slots)
{
    const Py_ssize_t argcount = code->co_argcount;
    const Py_ssize_t ndefaults = func->func_defaults == NULL ? 0 : PyTuple_GET_SIZE(func->func_defaults);
    for (Py_ssize_t i = 0; i < argcount; i++) {
        if (slots[i] == NULL) {
            const Py_ssize_t which = i - (argcount - ndefaults);
            if (which < 0) {
                return false;
            }
            slots[i] = Py_NewRef(PyTuple_GET_ITEM(func->func_defaults, which));
        }
    }
    for (Py_ssize_t i = argcount; i < argcount + code->co_kwonlyargcount; i++) {
        if (slots[i] == NULL) {
            PyObject *name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
            PyObject *value = func->func_kwdefaults == NULL ? NULL
                                                            : PyDict_GetItemWithError(func->func_kwdefaults, name);
            if (value == NULL) {
                return false;
            }
            slots[i] = Py_NewRef(value);
        }
    }
    return true;
}

bool
dj_bind(PyFunctionObject *func, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **slots)
{
    PyCodeObject *code = (PyCodeObject *)func->func_code;
    const Py_ssize_t nslots = dj_slot_count(code);
    const Py_ssize_t argcount = code->co_argcount;
    const Py_ssize_t extra = argcount + code->co_kwonlyargcount; /* where *args and **kwargs stand */
    const Py_ssize_t given = nargs < argcount ? nargs : argcount;
    PyObject *kwdict = NULL; /* borrowed from slots */
    bool bound = false;

    for (Py_ssize_t i = 0; i < nslots; i++) {
        slots[i] = i < given ? Py_NewRef(args[i]) : NULL;
    }
    if (code->co_flags & CO_VARARGS) {
        slots[extra] = PyTuple_New(nargs - given);
        if (slots[extra] == NULL) {
            goto done;
        }
        for (Py_ssize_t i = given; i < nargs; i++) {
            PyTuple_SET_ITEM(slots[extra], i - given, Py_NewRef(args[i]));
        }
    }
    else if (nargs > argcount) {
        goto done;
    }
    if (code->co_flags & CO_VARKEYWORDS) {
        kwdict = slots[nslots - 1] = PyDict_New();
        if (kwdict == NULL) {
            goto done;
        }
    }
    bound = (kwnames == NULL || bind_keywords(code, args + nargs, kwnames, slots, kwdict))
            && bind_defaults(func, code, slots);
done:
    if (!bound) {
        PyErr_Clear();
        for (Py_ssize_t i = 0; i < nslots; i++) {
            Py_CLEAR(slots[i]);
        }
    }
    return bound;
}
