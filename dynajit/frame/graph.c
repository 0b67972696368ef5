/* The objects that replacement code calls: GraphCall runs a compiled graph, Resume asks for the rest of the function. */
#include "frame.h"
#include <structmember.h>

/* ---- GraphCall ---- */

/* A pure graph that fails has done nothing yet: remember it, so that the turn can be run natively instead. */
static void
note_failure(Thread *thread, GraphCall *self)
{
    if (thread->turns == 0 || !self->pure || !PyErr_ExceptionMatches(PyExc_Exception)) {
        return;
    }
    PyObject *exception = dj_exception_take();
    if (dj_may_repeat((PyObject *)self, exception)) {
        Py_XSETREF(thread->failure, Py_XNewRef(exception));
        Py_XSETREF(thread->failed, (GraphCall *)Py_NewRef(self));
    }
    dj_exception_put(exception);
}

static PyObject *
graph_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    /* Owned: fn (another thread may swap it meanwhile) */
    GraphCall *self = (GraphCall *)callable;
    Thread *thread = &dj_thread;
    PyObject *fn = Py_NewRef(self->fn);
    self->calls++;
    const Paused paused = dj_pause(thread);
    PyObject *result = PyObject_Vectorcall(fn, args, nargsf, kwnames);
    dj_go_on(thread, paused);
    if (result == NULL) {
        note_failure(thread, self);
    }
    Py_DECREF(fn);
    return result;
}

static PyObject *
graph_call_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fn", "pure", "label", NULL};
    PyObject *fn, *label = NULL;
    int pure;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Op|U:GraphCall", names, &fn, &pure, &label)) {
        return NULL;
    }
    GraphCall *self = (GraphCall *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = graph_call;
        self->fn = Py_NewRef(fn);
        self->label = label != NULL ? Py_NewRef(label) : PyUnicode_FromString("");
        self->pure = (char)pure;
    }
    return (PyObject *)self;
}

static int
graph_call_traverse(GraphCall *self, visitproc visit, void *arg)
{
    Py_VISIT(self->fn);
    return 0;
}

static int
graph_call_clear(GraphCall *self)
{
    Py_XSETREF(self->fn, Py_NewRef(Py_None));
    return 0;
}

static void
graph_call_dealloc(GraphCall *self)
{
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->fn);
    Py_CLEAR(self->label);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
graph_call_repr(GraphCall *self)
{
    return PyUnicode_FromFormat("<GraphCall %U, %zd calls>", self->label, self->calls);
}

static PyObject *
get_fn(GraphCall *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->fn);
}

static int
set_fn(GraphCall *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (value == NULL) {
        PyErr_SetString(PyExc_AttributeError, "fn cannot be deleted");
        return -1;
    }
    Py_XSETREF(self->fn, Py_NewRef(value));
    return 0;
}

static PyGetSetDef graph_call_getset[] = {
    {"fn", (getter)get_fn, (setter)set_fn, "what is called; may be swapped at any time", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef graph_call_members[] = {
    {"label", T_OBJECT, offsetof(GraphCall, label), READONLY, "name for reports"},
    {"pure", T_BOOL, offsetof(GraphCall, pure), 0, "nothing has happened if fn raises"},
    {"calls", T_PYSSIZET, offsetof(GraphCall, calls), 0, "how often it was called"},
    {"failures", T_PYSSIZET, offsetof(GraphCall, failures), 0, "how often the function was run natively instead"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject dj_graph_call_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.frame._hook.GraphCall",
    .tp_basicsize = sizeof(GraphCall),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "GraphCall(fn, pure, label='')\n--\n\nA compiled graph as replacement code calls it.",
    .tp_vectorcall_offset = offsetof(GraphCall, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = graph_call_new,
    .tp_traverse = (traverseproc)graph_call_traverse,
    .tp_clear = (inquiry)graph_call_clear,
    .tp_dealloc = (destructor)graph_call_dealloc,
    .tp_repr = (reprfunc)graph_call_repr,
    .tp_getset = graph_call_getset,
    .tp_members = graph_call_members,
};

/* ---- Tail ---- */

static int
tail_traverse(Tail *self, visitproc visit, void *arg)
{
    Py_VISIT(self->resume);
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_VISIT(self->items[i]);
    }
    return 0;
}

static void
tail_dealloc(Tail *self)
{
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, tail_dealloc)
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_XDECREF(self->items[i]);
    }
    Py_XDECREF(self->resume);
    Py_TYPE(self)->tp_free(self);
    Py_TRASHCAN_END
}

PyTypeObject dj_tail_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.frame._hook.Tail",
    .tp_basicsize = offsetof(Tail, items),
    .tp_itemsize = sizeof(PyObject *),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "What a Resume returns: run this next. Never seen by user code.",
    .tp_traverse = (traverseproc)tail_traverse,
    .tp_dealloc = (destructor)tail_dealloc,
};

/* ---- Resume ---- */

static PyObject *
resume_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Resume *self = (Resume *)callable;
    const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    const Py_ssize_t ncells = self->code->co_nfreevars;
    if (nargs != ncells + self->code->co_argcount || (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0)) {
        return PyErr_Format(PyExc_TypeError, "%U takes %zd cells and %d arguments, %zd were given",
                            self->code->co_qualname, ncells, self->code->co_argcount, nargs);
    }
    for (Py_ssize_t i = 0; i < ncells; i++) {
        if (!PyCell_Check(args[i])) {
            return PyErr_Format(PyExc_TypeError, "free variable %zd of %U must be a cell, not %.100s", i,
                                self->code->co_qualname, Py_TYPE(args[i])->tp_name);
        }
    }
    Tail *tail = PyObject_GC_NewVar(Tail, &dj_tail_type, nargs);
    if (tail == NULL) {
        return NULL;
    }
    tail->resume = (Resume *)Py_NewRef(self);
    for (Py_ssize_t i = 0; i < nargs; i++) {
        tail->items[i] = Py_NewRef(args[i]);
    }
    PyObject_GC_Track(tail);
    return (PyObject *)tail;
}

static PyObject *
resume_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", "owner", NULL};
    PyObject *code, *owner = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O:Resume", names, &PyCode_Type, &code, &owner)) {
        return NULL;
    }
    PyCodeObject *co = (PyCodeObject *)code;
    if (co->co_kwonlyargcount != 0 || (co->co_flags & (CO_VARARGS | CO_VARKEYWORDS | DJ_GENERATOR_FLAGS))) {
        PyErr_SetString(PyExc_ValueError, "resume code takes positional arguments only and is no generator");
        return NULL;
    }
    Resume *self = (Resume *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = resume_call;
        self->code = (PyCodeObject *)Py_NewRef(code);
        self->owner = Py_NewRef(owner);
    }
    return (PyObject *)self;
}

static int
resume_traverse(Resume *self, visitproc visit, void *arg)
{
    Py_VISIT(self->owner);
    Py_VISIT(self->function);
    return 0;
}

static int
resume_clear(Resume *self)
{
    Py_CLEAR(self->owner);
    Py_CLEAR(self->function);
    return 0;
}

static void
resume_dealloc(Resume *self)
{
    PyObject_GC_UnTrack(self);
    resume_clear(self);
    Py_CLEAR(self->code);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
resume_repr(Resume *self)
{
    return PyUnicode_FromFormat("<Resume %U>", self->code->co_qualname);
}

static PyMemberDef resume_members[] = {
    {"code", T_OBJECT, offsetof(Resume, code), READONLY, "the code that continues"},
    {"owner", T_OBJECT, offsetof(Resume, owner), READONLY, "whatever the maker wants to find again"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject dj_resume_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.frame._hook.Resume",
    .tp_basicsize = sizeof(Resume),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "Resume(code, owner=None)\n--\n\nresume(*cells, *args) hands the rest of a function to the dispatch loop.",
    .tp_vectorcall_offset = offsetof(Resume, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = resume_new,
    .tp_traverse = (traverseproc)resume_traverse,
    .tp_clear = (inquiry)resume_clear,
    .tp_dealloc = (destructor)resume_dealloc,
    .tp_repr = (reprfunc)resume_repr,
    .tp_members = resume_members,
};
