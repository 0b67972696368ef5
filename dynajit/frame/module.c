/* dynajit.frame._hook: the module object. */
#include "frame.h"

#define DJ_VERSION "0.1"

static PyObject *
missing_repr(PyObject *Py_UNUSED(self))
{
    return PyUnicode_FromString("MISSING");
}

static PyObject *
missing_reduce(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    return PyUnicode_FromString("MISSING");
}

static int
missing_bool(PyObject *Py_UNUSED(self))
{
    return 0;
}

static PyMethodDef missing_methods[] = {
    {"__reduce__", missing_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyNumberMethods missing_number = {.nb_bool = missing_bool};

static PyTypeObject missing_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.frame._hook.MissingType",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "The type of MISSING: what an accessor gives that finds nothing.",
    .tp_repr = missing_repr,
    .tp_as_number = &missing_number,
    .tp_methods = missing_methods,
};

PyObject *
dj_exchange(PyObject **setting, PyObject *fn)
{
    PyObject *before = *setting;
    if (fn != Py_None && !PyCallable_Check(fn)) {
        PyErr_Format(PyExc_TypeError, "expected a callable or None, not %.100s", Py_TYPE(fn)->tp_name);
        return NULL;
    }
    *setting = fn == Py_None ? NULL : Py_NewRef(fn);
    return before == NULL ? Py_NewRef(Py_None) : before;
}

static PyObject *
set_code_equal(PyObject *Py_UNUSED(module), PyObject *fn)
{
    return dj_exchange(&dj_code_equal, fn);
}

static PyObject *
version(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyUnicode_FromFormat("%s for CPython %d.%d.%d", DJ_VERSION, PY_MAJOR_VERSION, PY_MINOR_VERSION,
                                PY_MICRO_VERSION);
}

static PyMethodDef methods[] = {
    {"set_code_equal", set_code_equal, METH_O,
     "set_code_equal($module, fn, /)\n--\n\nfn(actual, expected) decides whether two code objects do the same. Returns the one before."},
    {"configure", dj_configure, METH_O,
     "configure($module, torch, /)\n--\n\nFind in the imported torch what TENSOR checks need; True if by the C shim."},
    {"shim_active", dj_shim_active, METH_NOARGS,
     "shim_active($module, /)\n--\n\nWhether tensors are asked through libtorch's C shim."},
    {"version", version, METH_NOARGS, "version($module, /)\n--\n\nOur version and the CPython it was built for."},
    {NULL, NULL, 0, NULL},
};

/* Statics hold the state, so there is one interpreter for them, and running this twice changes nothing. */
static int
module_exec(PyObject *module)
{
    PyTypeObject *const types[] = {
        &dj_dispatcher_type, &dj_entry_type, &dj_check_type, &dj_graph_call_type, &dj_resume_type, &dj_tail_type,
        &dj_off_type, &missing_type,
    };
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "dynajit works in the main interpreter only, not in a sub-interpreter");
        return -1;
    }
    dj_hook_init();
    if (dj_entries_init() < 0) {
        return -1;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(types); i++) {
        if (PyModule_AddType(module, types[i]) < 0) {
            return -1;
        }
    }
    if (dj_missing == NULL) {
        dj_missing = missing_type.tp_alloc(&missing_type, 0);
    }
    if (dj_missing == NULL || PyModule_AddObjectRef(module, "MISSING", dj_missing) < 0) {
        return -1;
    }
    if (dj_add_constants(module) < 0 || dj_add_test_constants(module) < 0) {
        return -1;
    }
    if (PyModule_AddFunctions(module, dj_entries_methods) < 0 || PyModule_AddFunctions(module, dj_dispatch_methods) < 0
        || PyModule_AddFunctions(module, dj_dispatcher_methods) < 0
        || PyModule_AddFunctions(module, dj_hook_methods) < 0) {
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynajit.frame._hook",
    .m_doc = "Calls, guards and frames, in C. See dynajit.frame.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__hook(void)
{
    return PyModuleDef_Init(&definition);
}
