/* Dispatcher: what `dynajit.compile(fn)` returns. It behaves as the function it wraps and dispatches its calls. */
#include "frame.h"
#include <structmember.h>

static PyObject *reducer;         /* set_reducer; owned, may be NULL */
static PyObject *traceback_fixer; /* set_traceback_fixer; owned, may be NULL */

/* ---- calls ---- */

static bool
has_hidden_frame(PyObject *exception)
{
    PyObject *traceback = PyException_GetTraceback(exception);
    bool hidden = false;
    for (PyTracebackObject *tb = (PyTracebackObject *)traceback; tb != NULL && !hidden; tb = tb->tb_next) {
        PyCodeObject *code = PyFrame_GetCode(tb->tb_frame);
        Extra *extra = dj_extra(code);
        hidden = extra != NULL && (extra->flags & DJ_HIDE);
        Py_DECREF(code);
    }
    Py_XDECREF(traceback);
    return hidden;
}

/* An exception leaves the outermost compiled call: take our own frames out of its traceback. */
static void
fix_traceback(Thread *thread)
{
    /* Owned: exception, fixer */
    if (traceback_fixer == NULL) {
        return;
    }
    PyObject *exception = dj_exception_take();
    if (exception == NULL) {
        return;
    }
    if (has_hidden_frame(exception)) {
        PyObject *fixer = Py_NewRef(traceback_fixer);
        const Paused paused = dj_pause(thread);
        PyObject *result = PyObject_CallOneArg(fixer, exception);
        dj_go_on(thread, paused);
        if (result == NULL) {
            PyErr_WriteUnraisable(fixer);
        }
        Py_XDECREF(result);
        Py_DECREF(fixer);
    }
    dj_exception_put(exception);
}

static PyObject *
dispatch_call(Thread *thread, Dispatcher *self, Turn *turn)
{
    if (thread->stack_low == NULL) {
        dj_note_stack(thread);
    }
    if (dj_stack_short(thread, &thread, thread->stack_reserve)) {
        Py_DECREF(turn->func);
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: no C stack left for a compiled call");
        return NULL;
    }
    thread->calls++;
    PyObject *result = dj_dispatch(thread, self, turn);
    if (--thread->calls == 0 && result == NULL) {
        fix_traceback(thread);
    }
    return result;
}

/* The general case: keyword arguments, defaults, *args and **kwargs. */
static PyObject *
bind_and_dispatch(Thread *thread, Dispatcher *self, Turn *turn)
{
    /* Owned: slots, memory */
    PyObject *small[DJ_SMALL];
    PyObject **slots = small;
    PyObject *result;
    turn->nslots = dj_slot_count((PyCodeObject *)turn->func->func_code);
    if (turn->nslots > DJ_SMALL) {
        slots = PyMem_Malloc((size_t)turn->nslots * sizeof(PyObject *));
        if (slots == NULL) {
            Py_DECREF(turn->func);
            return PyErr_NoMemory();
        }
    }
    const Py_ssize_t nslots = turn->nslots;
    if (dj_bind(turn->func, turn->call, PyVectorcall_NARGS(turn->nargsf), turn->kwnames, slots)) {
        turn->slots = slots;
        result = dispatch_call(thread, self, turn);
        for (Py_ssize_t i = 0; i < nslots; i++) {
            Py_DECREF(slots[i]);
        }
    }
    else { /* CPython raises its own TypeError */
        result = turn->func->vectorcall((PyObject *)turn->func, turn->call, turn->nargsf, turn->kwnames);
        Py_DECREF(turn->func);
    }
    if (slots != small) {
        PyMem_Free(slots);
    }
    return result;
}

static PyObject *
dispatcher_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Dispatcher *self = (Dispatcher *)callable;
    Thread *thread = &dj_thread;
    PyFunctionObject *func = self->func;
    if (func == NULL) {
        PyErr_SetString(PyExc_ReferenceError, "this compiled function is being collected");
        return NULL;
    }
    PyCodeObject *code = (PyCodeObject *)func->func_code;
    if (dj_bypassed || (code->co_flags & DJ_GENERATOR_FLAGS) || thread->compiling || dj_tracing(PyThreadState_Get(), code)) {
        return func->vectorcall((PyObject *)func, args, nargsf, kwnames);
    }
    Py_INCREF(self);
    Turn turn = {
        .func = (PyFunctionObject *)Py_NewRef(func),
        .slots = args,
        .nslots = PyVectorcall_NARGS(nargsf),
        .call = args,
        .nargsf = nargsf,
        .kwnames = kwnames,
        .dispatcher = self,
    };
    PyObject *result;
    if (kwnames == NULL && turn.nslots == code->co_argcount && code->co_kwonlyargcount == 0
        && (code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)) == 0) {
        result = dispatch_call(thread, self, &turn);
    }
    else {
        result = bind_and_dispatch(thread, self, &turn);
    }
    Py_DECREF(self);
    return result;
}

/* ---- the object ---- */

static PyObject *
dispatcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"func", "options", "on_miss", NULL};
    PyObject *func, *options, *on_miss;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO:Dispatcher", names, &PyFunction_Type, &func, &options,
                                     &on_miss)) {
        return NULL;
    }
    if (!PyCallable_Check(on_miss)) {
        PyErr_Format(PyExc_TypeError, "on_miss must be callable, not %.100s", Py_TYPE(on_miss)->tp_name);
        return NULL;
    }
    PyCodeObject *code = (PyCodeObject *)((PyFunctionObject *)func)->func_code;
    Extra *extra = dj_extra_make(code);
    if (extra == NULL) {
        return NULL;
    }
    Dispatcher *self = (Dispatcher *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = dispatcher_call;
        self->func = (PyFunctionObject *)Py_NewRef(func);
        self->options = Py_NewRef(options);
        self->on_miss = Py_NewRef(on_miss);
        self->code = (PyCodeObject *)Py_NewRef(code);
        extra->dispatchers++;
    }
    return (PyObject *)self;
}

/* The only Dispatcher of a code object answers for its entries: see entries.c. */
static Extra *
own_entries(Dispatcher *self)
{
    Extra *extra = self->code == NULL ? NULL : dj_extra(self->code);
    return extra != NULL && extra->dispatchers == 1 ? extra : NULL;
}

static int
dispatcher_traverse(Dispatcher *self, visitproc visit, void *arg)
{
    Py_VISIT(self->func);
    Py_VISIT(self->options);
    Py_VISIT(self->on_miss);
    Py_VISIT(self->last);
    Py_VISIT(self->function);
    Py_VISIT(self->dict);
    Extra *extra = own_entries(self);
    for (Py_ssize_t i = 0; extra != NULL && i < extra->count; i++) {
        Py_VISIT(extra->items[i]);
    }
    return 0;
}

static void
leave_code(Dispatcher *self)
{
    Extra *extra = self->code == NULL ? NULL : dj_extra(self->code);
    if (extra != NULL) {
        extra->dispatchers--;
    }
    Py_CLEAR(self->code);
}

static int
dispatcher_clear(Dispatcher *self)
{
    Extra *extra = own_entries(self);
    if (extra != NULL) {
        dj_entries_clear(extra);
    }
    leave_code(self);
    Py_CLEAR(self->func);
    Py_CLEAR(self->options);
    Py_CLEAR(self->on_miss);
    Py_CLEAR(self->last);
    Py_CLEAR(self->function);
    Py_CLEAR(self->dict);
    return 0;
}

static void
dispatcher_dealloc(Dispatcher *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    leave_code(self); /* the entries stay: another Dispatcher of this code may use them */
    dispatcher_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
dispatcher_get(PyObject *self, PyObject *obj, PyObject *Py_UNUSED(type))
{
    return obj == NULL ? Py_NewRef(self) : PyMethod_New(self, obj);
}

static PyObject *
dispatcher_repr(Dispatcher *self)
{
    return PyUnicode_FromFormat("<dynajit.compiled %U>", self->func == NULL ? Py_None : self->func->func_qualname);
}

/* ---- attributes: our own, then our own __dict__, then the function's ---- */

static PyObject *
dispatcher_getattro(PyObject *obj, PyObject *name)
{
    Dispatcher *self = (Dispatcher *)obj;
    PyObject *value = PyObject_GenericGetAttr(obj, name);
    if (value == NULL && self->func != NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        value = PyObject_GetAttr((PyObject *)self->func, name);
    }
    return value;
}

/* __defaults__, __kwdefaults__, __code__ and the like change what a call does: they are the function's. */
static int
dispatcher_setattro(PyObject *obj, PyObject *name, PyObject *value)
{
    Dispatcher *self = (Dispatcher *)obj;
    PyObject *found = _PyType_Lookup(&dj_dispatcher_type, name);
    if (self->func != NULL && (found == NULL || Py_TYPE(found)->tp_descr_set == NULL)) {
        PyObject *descriptor = _PyType_Lookup(&PyFunction_Type, name);
        if (descriptor != NULL && Py_TYPE(descriptor)->tp_descr_set != NULL) {
            return PyObject_SetAttr((PyObject *)self->func, name, value);
        }
    }
    return PyObject_GenericSetAttr(obj, name, value);
}

/* A name that the type itself has, too: __doc__ and the like. `name` is the getset's closure. */
static PyObject *
get_own(Dispatcher *self, void *name)
{
    PyObject *value = self->dict == NULL ? NULL : PyDict_GetItemString(self->dict, name);
    if (value != NULL) {
        return Py_NewRef(value);
    }
    if (self->func == NULL) {
        Py_RETURN_NONE;
    }
    return strcmp(name, "__wrapped__") == 0 ? Py_NewRef(self->func)
                                            : PyObject_GetAttrString((PyObject *)self->func, name);
}

static int
set_own(Dispatcher *self, PyObject *value, void *name)
{
    if (self->dict == NULL && (self->dict = PyDict_New()) == NULL) {
        return -1;
    }
    return value == NULL ? PyDict_DelItemString(self->dict, name) : PyDict_SetItemString(self->dict, name, value);
}

static PyGetSetDef dispatcher_getset[] = {
    {"__wrapped__", (getter)get_own, (setter)set_own, "the function", "__wrapped__"},
    {"__name__", (getter)get_own, (setter)set_own, NULL, "__name__"},
    {"__qualname__", (getter)get_own, (setter)set_own, NULL, "__qualname__"},
    {"__doc__", (getter)get_own, (setter)set_own, NULL, "__doc__"},
    {"__module__", (getter)get_own, (setter)set_own, NULL, "__module__"},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef dispatcher_members[] = {
    {"__dynajit_options__", T_OBJECT, offsetof(Dispatcher, options), READONLY, "the options it was made with"},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *
dispatcher_reduce(PyObject *self, PyObject *Py_UNUSED(unused))
{
    if (reducer == NULL) {
        PyErr_Format(PyExc_TypeError, "cannot pickle %R: set_reducer() was not called", self);
        return NULL;
    }
    return PyObject_CallOneArg(reducer, self);
}

static PyMethodDef dispatcher_methods[] = {
    {"__reduce__", dispatcher_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject dj_dispatcher_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.frame._hook.Dispatcher",
    .tp_basicsize = sizeof(Dispatcher),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(Dispatcher, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dictoffset = offsetof(Dispatcher, dict),
    .tp_weaklistoffset = offsetof(Dispatcher, weakrefs),
    .tp_new = dispatcher_new,
    .tp_traverse = (traverseproc)dispatcher_traverse,
    .tp_clear = (inquiry)dispatcher_clear,
    .tp_dealloc = (destructor)dispatcher_dealloc,
    .tp_descr_get = dispatcher_get,
    .tp_repr = (reprfunc)dispatcher_repr,
    .tp_getattro = dispatcher_getattro,
    .tp_setattro = dispatcher_setattro,
    .tp_getset = dispatcher_getset,
    .tp_members = dispatcher_members,
    .tp_methods = dispatcher_methods,
};

/* ---- functions of the module ---- */

static PyObject *
set_reducer(PyObject *Py_UNUSED(module), PyObject *fn)
{
    return dj_exchange(&reducer, fn);
}

static PyObject *
set_traceback_fixer(PyObject *Py_UNUSED(module), PyObject *fn)
{
    return dj_exchange(&traceback_fixer, fn);
}

PyMethodDef dj_dispatcher_methods[] = {
    {"set_reducer", set_reducer, METH_O,
     "set_reducer($module, fn, /)\n--\n\nfn(dispatcher) answers __reduce__, for pickle and copy. Returns the one before."},
    {"set_traceback_fixer", set_traceback_fixer, METH_O,
     "set_traceback_fixer($module, fn, /)\n--\n\nfn(exception) is called when one leaves the outermost Dispatcher call "
     "with a hidden frame in its traceback. Returns the one before."},
    {NULL, NULL, 0, NULL},
};
