/* Entries: what is kept with a code object. By identity of the code object, freed with it.

   A code object is not seen by the cycle collector, so an entry that leads back to its own function would keep both
   alive for ever. A Dispatcher that is the only one of its code therefore shows the entries to the collector as its own
   (dispatch.c); the collector may then clear entries, and a cleared entry never matches. */
#include "frame.h"
#include <structmember.h>

static Py_ssize_t extra_index = -1;

static void
extra_free(void *memory)
{
    Extra *extra = memory;
    if (extra != NULL) {
        dj_entries_clear(extra);
        PyMem_Free(extra);
    }
}

int
dj_entries_init(void)
{
    if (extra_index < 0) {
        extra_index = dj_code_extra_index(extra_free);
        if (extra_index < 0) {
            PyErr_SetString(PyExc_ImportError, "dynajit: CPython has no slot left for data kept with code objects");
            return -1;
        }
    }
    return 0;
}

Extra *
dj_extra(PyCodeObject *code)
{
    void *memory = NULL;
    if (dj_code_extra_get((PyObject *)code, extra_index, &memory) < 0) {
        PyErr_Clear();
    }
    return memory;
}

Extra *
dj_extra_make(PyCodeObject *code)
{
    Extra *extra = dj_extra(code);
    if (extra == NULL) {
        extra = PyMem_Calloc(1, sizeof(Extra));
        if (extra == NULL) {
            PyErr_NoMemory();
        }
        else if (dj_code_extra_set((PyObject *)code, extra_index, extra) < 0) {
            PyMem_Free(extra);
            extra = NULL;
        }
    }
    return extra;
}

static Py_ssize_t
find(Extra *extra, Entry *entry)
{
    for (Py_ssize_t i = 0; i < extra->count; i++) {
        if (extra->items[i] == entry) {
            return i;
        }
    }
    return -1;
}

static void
move(Entry **items, Py_ssize_t from)
{
    Entry *entry = items[from];
    memmove(items + 1, items, (size_t)from * sizeof(Entry *));
    items[0] = entry;
}

static bool
fits(PyCodeObject *code, Entry *entry)
{
    PyCodeObject *replacement = (PyCodeObject *)entry->code;
    if (entry->check == NULL || entry->code == Py_None) {
        return true;
    }
    const Py_ssize_t expected = dj_slot_count(code) + ((Check *)entry->check)->ninputs;
    if (replacement->co_argcount != expected) {
        PyErr_Format(PyExc_ValueError, "the replacement of %U must take %zd arguments (%zd slots, %zd inputs), not %d",
                     code->co_qualname, expected, dj_slot_count(code), ((Check *)entry->check)->ninputs,
                     replacement->co_argcount);
        return false;
    }
    PyObject *wanted = PyCode_GetFreevars(code);
    PyObject *found = PyCode_GetFreevars(replacement);
    const int same = wanted != NULL && found != NULL ? PyObject_RichCompareBool(wanted, found, Py_EQ) : -1;
    if (same == 0) {
        PyErr_Format(PyExc_ValueError, "the replacement of %U must have the free variables %R, not %R",
                     code->co_qualname, wanted, found);
    }
    Py_XDECREF(wanted);
    Py_XDECREF(found);
    return same == 1;
}

/* A new entry stands first; one that is there already stays where it is. */
int
dj_entry_add(PyCodeObject *code, Entry *entry)
{
    Extra *extra = dj_extra_make(code);
    if (extra == NULL || !fits(code, entry)) {
        return -1;
    }
    if (find(extra, entry) >= 0) {
        return 0;
    }
    if (extra->count == extra->capacity) {
        const Py_ssize_t capacity = extra->capacity == 0 ? 4 : 2 * extra->capacity;
        Entry **items = PyMem_Realloc(extra->items, (size_t)capacity * sizeof(Entry *));
        if (items == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        extra->items = items;
        extra->capacity = capacity;
    }
    extra->items[extra->count++] = (Entry *)Py_NewRef(entry);
    move(extra->items, extra->count - 1);
    extra->epoch++;
    return 0;
}

void
dj_entry_to_front(Extra *extra, Entry *entry)
{
    const Py_ssize_t i = find(extra, entry);
    if (i > 0) {
        move(extra->items, i);
        extra->epoch++;
    }
}

void
dj_entries_clear(Extra *extra)
{
    Entry **items = extra->items; /* taken out first: letting go of an entry may run any code */
    const Py_ssize_t count = extra->count;
    extra->items = NULL;
    extra->count = extra->capacity = 0;
    extra->epoch++;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_DECREF(items[i]);
    }
    PyMem_Free(items);
}

/* ---- Entry ---- */

static PyObject *
entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"check", "code", "options", "breaks", "owner", NULL};
    PyObject *check, *code, *options, *owner = Py_None;
    int breaks = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO|pO:Entry", names, &dj_check_type, &check, &code, &options,
                                     &breaks, &owner)) {
        return NULL;
    }
    if (code != Py_None) {
        if (!PyCode_Check(code)) {
            PyErr_Format(PyExc_TypeError, "code must be a code object or None, not %.100s", Py_TYPE(code)->tp_name);
            return NULL;
        }
        PyCodeObject *co = (PyCodeObject *)code;
        if (co->co_kwonlyargcount != 0 || (co->co_flags & (CO_VARARGS | CO_VARKEYWORDS | DJ_GENERATOR_FLAGS))) {
            PyErr_SetString(PyExc_ValueError, "replacement code takes positional arguments only and is no generator");
            return NULL;
        }
        if (co->co_argcount < ((Check *)check)->ninputs) {
            PyErr_Format(PyExc_ValueError, "replacement code takes %d arguments, the check hands over %zd inputs",
                         co->co_argcount, ((Check *)check)->ninputs);
            return NULL;
        }
    }
    Entry *self = (Entry *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->check = Py_NewRef(check);
        self->code = Py_NewRef(code);
        self->options = Py_NewRef(options);
        self->owner = Py_NewRef(owner);
        self->breaks = (char)breaks;
    }
    return (PyObject *)self;
}

static int
entry_traverse(Entry *self, visitproc visit, void *arg)
{
    Py_VISIT(self->check);
    Py_VISIT(self->code);
    Py_VISIT(self->options);
    Py_VISIT(self->owner);
    Py_VISIT(self->function);
    return 0;
}

static int
entry_clear(Entry *self)
{
    Py_CLEAR(self->check);
    Py_CLEAR(self->options);
    Py_CLEAR(self->owner);
    Py_CLEAR(self->function);
    return 0;
}

static void
entry_dealloc(Entry *self)
{
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, entry_dealloc)
    entry_clear(self);
    Py_CLEAR(self->code);
    Py_TYPE(self)->tp_free(self);
    Py_TRASHCAN_END
}

static PyObject *
entry_repr(Entry *self)
{
    if (self->code == NULL || self->code == Py_None) {
        return PyUnicode_FromFormat("<Entry: run the original, %zd hits>", self->hits);
    }
    return PyUnicode_FromFormat("<Entry %U, %zd hits>", ((PyCodeObject *)self->code)->co_qualname, self->hits);
}

static PyMemberDef entry_members[] = {
    {"check", T_OBJECT, offsetof(Entry, check), READONLY, "the Check under which the entry is valid"},
    {"code", T_OBJECT, offsetof(Entry, code), READONLY, "the replacement; None: run the original"},
    {"options", T_OBJECT, offsetof(Entry, options), READONLY, "considered only for a Dispatcher with these options"},
    {"breaks", T_BOOL, offsetof(Entry, breaks), READONLY, "frames entered while it runs are intercepted"},
    {"owner", T_OBJECT, offsetof(Entry, owner), READONLY, "whatever the maker wants to find again"},
    {"hits", T_PYSSIZET, offsetof(Entry, hits), 0, "how often it was run"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject dj_entry_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.frame._hook.Entry",
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Entry(check, code, options, breaks=False, owner=None)\n--\n\nA replacement and the check it needs.",
    .tp_new = entry_new,
    .tp_traverse = (traverseproc)entry_traverse,
    .tp_clear = (inquiry)entry_clear,
    .tp_dealloc = (destructor)entry_dealloc,
    .tp_repr = (reprfunc)entry_repr,
    .tp_members = entry_members,
};

/* ---- functions of the module ---- */

static PyCodeObject *
as_code(PyObject *obj)
{
    if (!PyCode_Check(obj)) {
        PyErr_Format(PyExc_TypeError, "expected a code object, not %.100s", Py_TYPE(obj)->tp_name);
        return NULL;
    }
    return (PyCodeObject *)obj;
}

static PyObject *
list_entries(PyObject *Py_UNUSED(module), PyObject *code)
{
    if (as_code(code) == NULL) {
        return NULL;
    }
    Extra *extra = dj_extra((PyCodeObject *)code);
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list != NULL && extra != NULL && i < extra->count; i++) {
        if (PyList_Append(list, (PyObject *)extra->items[i]) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *
add_entry(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *code, *entry;
    if (!PyArg_ParseTuple(args, "O!O!:add", &PyCode_Type, &code, &dj_entry_type, &entry)) {
        return NULL;
    }
    if (dj_entry_add((PyCodeObject *)code, (Entry *)entry) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
remove_entry(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *code, *entry;
    if (!PyArg_ParseTuple(args, "O!O!:remove", &PyCode_Type, &code, &dj_entry_type, &entry)) {
        return NULL;
    }
    Extra *extra = dj_extra((PyCodeObject *)code);
    const Py_ssize_t i = extra == NULL ? -1 : find(extra, (Entry *)entry);
    if (i < 0) {
        Py_RETURN_FALSE;
    }
    extra->count--;
    memmove(extra->items + i, extra->items + i + 1, (size_t)(extra->count - i) * sizeof(Entry *));
    extra->epoch++;
    Py_DECREF(entry);
    Py_RETURN_TRUE;
}

static PyObject *
clear_entries(PyObject *Py_UNUSED(module), PyObject *code)
{
    if (as_code(code) == NULL) {
        return NULL;
    }
    Extra *extra = dj_extra((PyCodeObject *)code);
    if (extra != NULL) {
        dj_entries_clear(extra);
    }
    Py_RETURN_NONE;
}

static PyObject *
set_flag(PyObject *args, PyObject *kwargs, int flag, const char *format)
{
    static char *names[] = {"code", "on", NULL};
    PyObject *code;
    int on = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &PyCode_Type, &code, &on)) {
        return NULL;
    }
    Extra *extra = on ? dj_extra_make((PyCodeObject *)code) : dj_extra((PyCodeObject *)code);
    if (extra == NULL) {
        return on ? NULL : Py_NewRef(Py_None);
    }
    extra->flags = on ? extra->flags | flag : extra->flags & ~flag;
    Py_RETURN_NONE;
}

static PyObject *
get_flag(PyObject *code, int flag)
{
    if (as_code(code) == NULL) {
        return NULL;
    }
    Extra *extra = dj_extra((PyCodeObject *)code);
    return PyBool_FromLong(extra != NULL && (extra->flags & flag));
}

static PyObject *
skip(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    return set_flag(args, kwargs, DJ_SKIP, "O!|p:skip");
}

static PyObject *
hide(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    return set_flag(args, kwargs, DJ_HIDE, "O!|p:hide");
}

static PyObject *
is_skipped(PyObject *Py_UNUSED(module), PyObject *code)
{
    return get_flag(code, DJ_SKIP);
}

static PyObject *
is_hidden(PyObject *Py_UNUSED(module), PyObject *code)
{
    return get_flag(code, DJ_HIDE);
}

PyMethodDef dj_entries_methods[] = {
    {"entries", list_entries, METH_O, "entries($module, code, /)\n--\n\nThe entries kept with a code object, most recently hit first."},
    {"add", add_entry, METH_VARARGS, "add($module, code, entry, /)\n--\n\nKeep an entry with a code object, in first place."},
    {"remove", remove_entry, METH_VARARGS, "remove($module, code, entry, /)\n--\n\nDrop an entry; False if it was not there."},
    {"clear", clear_entries, METH_O, "clear($module, code, /)\n--\n\nDrop all entries of a code object."},
    {"skip", _PyCFunction_CAST(skip), METH_VARARGS | METH_KEYWORDS,
     "skip($module, code, on=True)\n--\n\nNever intercept this code: it runs natively, without a callback."},
    {"is_skipped", is_skipped, METH_O, "is_skipped($module, code, /)\n--\n\nWhether `skip` is on."},
    {"hide", _PyCFunction_CAST(hide), METH_VARARGS | METH_KEYWORDS,
     "hide($module, code, on=True)\n--\n\nLeave frames of this code out of tracebacks."},
    {"is_hidden", is_hidden, METH_O, "is_hidden($module, code, /)\n--\n\nWhether `hide` is on."},
    {NULL, NULL, 0, NULL},
};
