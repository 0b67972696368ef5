/* Accessors: how a node of a guard program gets its value from its parent. No user code runs in any of them but ATTR
   (unless it is a plain attribute), CALL, and ITEM with a key that compares in Python. */
#include "frame.h"
#include <structmember.h>

enum {
    LOCAL, GLOBALS, BUILTINS, FUNCTION, CONST, ATTR, DICT, INSTANCE, SLOT, ITEM, TYPE, TYPE_ATTR, CELL, FREE, CALL,
    SIZE, ACCESSORS
};

static const char *const accessor_names[ACCESSORS] = {
    "LOCAL", "GLOBALS", "BUILTINS", "FUNCTION", "CONST", "ATTR", "DICT", "INSTANCE", "SLOT", "ITEM", "TYPE", "TYPE_ATTR",
    "CELL", "FREE", "CALL", "SIZE",
};

int
dj_add_constants(PyObject *module)
{
    for (int i = 0; i < ACCESSORS; i++) {
        if (PyModule_AddIntConstant(module, accessor_names[i], i) < 0) {
            return -1;
        }
    }
    return 0;
}

int
dj_parse_accessor(Node *node)
{
    switch (node->accessor) {
    case LOCAL:
    case FREE:
    case SIZE:
        node->number = PyLong_AsSsize_t(node->arg);
        if (node->number < 0) {
            if (!PyErr_Occurred()) {
                PyErr_Format(PyExc_ValueError, "the number of a %s is not negative", accessor_names[node->accessor]);
            }
            return -1;
        }
        node->borrowed = node->accessor != SIZE;
        break;
    case GLOBALS:
    case BUILTINS:
    case FUNCTION:
    case CONST:
        node->borrowed = true;
        break;
    case ATTR:
    case INSTANCE:
    case SLOT:
    case TYPE_ATTR:
        if (!PyUnicode_CheckExact(node->arg)) {
            PyErr_Format(PyExc_TypeError, "%s takes a name, not %.100s", accessor_names[node->accessor],
                         Py_TYPE(node->arg)->tp_name);
            return -1;
        }
        PyUnicode_InternInPlace(&node->arg);
        break;
    case ITEM:
        if (PyUnicode_CheckExact(node->arg)) {
            PyUnicode_InternInPlace(&node->arg);
        }
        else if (PyLong_CheckExact(node->arg)) {
            node->number = PyLong_AsSsize_t(node->arg);
            if (node->number == -1 && PyErr_Occurred()) {
                PyErr_Clear(); /* a key of a dict; no list is that long */
                node->number = PY_SSIZE_T_MAX;
            }
        }
        break;
    case CALL:
        if (!PyCallable_Check(node->arg)) {
            PyErr_SetString(PyExc_TypeError, "CALL takes a callable");
            return -1;
        }
        return 0;
    case DICT:
    case TYPE:
    case CELL:
        break;
    default:
        PyErr_Format(PyExc_ValueError, "there is no accessor %d", node->accessor);
        return -1;
    }
    const bool root = node->borrowed;
    if (root != (node->parent < 0)) {
        PyErr_Format(PyExc_ValueError, "%s %s a parent", accessor_names[node->accessor], root ? "has not" : "needs");
        return -1;
    }
    return 0;
}

/* New reference to what a borrowed read found; MISSING if nothing; NULL if reading raised. */
static PyObject *
found_or_missing(PyObject *value)
{
    if (value == NULL) {
        return PyErr_Occurred() ? NULL : Py_NewRef(dj_missing);
    }
    return Py_NewRef(value);
}

static PyObject *
attribute(PyObject *obj, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(obj, name);
    if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        value = Py_NewRef(dj_missing);
    }
    return value;
}

/* obj.__dict__ as the interpreter keeps it; made if it can exist but does not yet. */
static PyObject *
dict_of(PyObject *obj)
{
    PyObject **pointer = _PyObject_GetDictPtr(obj);
    if (pointer == NULL) {
        return Py_NewRef(dj_missing);
    }
    if (*pointer == NULL && !PyType_Check(obj)) {
        return PyObject_GenericGetDict(obj, NULL);
    }
    return found_or_missing(*pointer);
}

/* The value of `name` among values kept without a dict. Borrowed, or NULL. `hint` is where it was found last. */
static PyObject *
among_values(PyObject **values, PyDictKeysObject *keys, PyObject *name, Py_ssize_t *hint)
{
    PyDictUnicodeEntry *entries = DJ_UNICODE_ENTRIES(keys);
    const Py_ssize_t count = keys->dk_nentries;
    if (*hint < count && entries[*hint].me_key == name) {
        return values[*hint];
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *key = entries[i].me_key;
        if (key == name || (key != NULL && !PyUnicode_CHECK_INTERNED(key) && PyUnicode_Compare(key, name) == 0)) {
            *hint = i;
            return values[i];
        }
    }
    return NULL;
}

PyObject *
dj_instance_entry(PyObject *obj, PyObject *name, Py_ssize_t *hint)
{
    PyDictKeysObject *keys = NULL;
    PyObject **values = dj_inline_values(obj, &keys);
    if (values != NULL) {
        return among_values(values, keys, name, hint);
    }
    PyObject *dict = dj_instance_dict(obj);
    return dict == NULL ? NULL : PyDict_GetItemWithError(dict, name);
}

static PyObject *
member(PyObject *obj, PyObject *name)
{
    PyObject *descriptor = _PyType_Lookup(Py_TYPE(obj), name);
    if (descriptor == NULL || !Py_IS_TYPE(descriptor, &PyMemberDescr_Type)
        || !PyObject_TypeCheck(obj, ((PyDescrObject *)descriptor)->d_type)) {
        return Py_NewRef(dj_missing);
    }
    PyObject *value = PyMember_GetOne((const char *)obj, ((PyMemberDescrObject *)descriptor)->d_member);
    if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        value = Py_NewRef(dj_missing);
    }
    return value;
}

/* Where a key of a table with str keys only is (Objects/dictobject.c); the table's own key replaces the equal one of
   the node, so that it is found by its address the next time. -1 where it is not worth a search. */
static Py_ssize_t
place_of(PyDictKeysObject *keys, Node *node)
{
    const Py_ssize_t count = keys->dk_nentries;
    if (!PyUnicode_CheckExact(node->arg) || (count > DJ_SEARCHED && node->number != 0)) {
        return -1;
    }
    PyDictUnicodeEntry *entries = DJ_UNICODE_ENTRIES(keys);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *key = entries[i].me_key;
        if (key != NULL && PyUnicode_CheckExact(key) && (key == node->arg || PyUnicode_Compare(key, node->arg) == 0)) {
            Py_SETREF(node->arg, Py_NewRef(key));
            return i;
        }
    }
    return -1;
}

/* The item of a dict by a key that is a str. Borrowed, or NULL. The place where it was is looked at first. */
static PyObject *
item_by_name(PyObject *dict, Node *node)
{
    PyDictObject *mp = (PyDictObject *)dict;
    PyDictKeysObject *keys = mp->ma_keys;
    if (mp->ma_values != NULL || keys->dk_kind != DICT_KEYS_UNICODE) {
        return PyDict_GetItemWithError(dict, node->arg);
    }
    if (node->number < keys->dk_nentries) {
        PyDictUnicodeEntry *entry = &DJ_UNICODE_ENTRIES(keys)[node->number];
        if (entry->me_key == node->arg) {
            return entry->me_value;
        }
    }
    PyObject *value = PyDict_GetItemWithError(dict, node->arg);
    if (value != NULL) { /* no key's __eq__ ran: the keys are strings */
        const Py_ssize_t place = place_of(keys, node);
        node->number = place < 0 ? node->number : place;
    }
    return value;
}

/* The item of a dict. Borrowed, or NULL. The same version of a dict holds the same items. */
static PyObject *
dict_item(PyObject *dict, Node *node)
{
    const uint64_t version = dj_dict_version(dict);
    if (version != 0 && version == node->stamp) {
        return node->found;
    }
    PyObject *value = PyLong_CheckExact(node->arg) ? PyDict_GetItemWithError(dict, node->arg) : item_by_name(dict, node);
    node->stamp = value == NULL || dj_dict_version(dict) != version ? 0 : version; /* a key's __eq__ may have run */
    node->found = value;
    return value;
}

static PyObject *
item(PyObject *obj, Node *node)
{
    if (PyDict_Check(obj)) {
        return found_or_missing(dict_item(obj, node));
    }
    if (PyLong_CheckExact(node->arg) && (PyTuple_Check(obj) || PyList_Check(obj))) {
        const Py_ssize_t size = Py_SIZE(obj);
        const Py_ssize_t i = node->number < 0 ? node->number + size : node->number;
        if (i >= 0 && i < size) {
            return Py_NewRef(PyTuple_Check(obj) ? PyTuple_GET_ITEM(obj, i) : PyList_GET_ITEM(obj, i));
        }
    }
    return Py_NewRef(dj_missing);
}

static PyObject *
free_variable(PyFunctionObject *func, Py_ssize_t i)
{
    PyObject *closure = func->func_closure;
    return closure != NULL && i < PyTuple_GET_SIZE(closure) ? PyTuple_GET_ITEM(closure, i) : dj_missing;
}

PyObject *
dj_fetch(Node *node, PyObject *parent, PyFunctionObject *func, PyObject *const *slots, Py_ssize_t nslots)
{
    switch (node->accessor) {
    case LOCAL:
        return node->number < nslots ? slots[node->number] : dj_missing;
    case GLOBALS:
        return func->func_globals;
    case BUILTINS:
        return func->func_builtins;
    case FUNCTION:
        return (PyObject *)func;
    case CONST:
        return node->arg;
    case FREE:
        return free_variable(func, node->number);
    case CALL:
        if (parent == NULL) {
            return PyObject_CallNoArgs(node->arg);
        }
        break;
    }
    if (parent == dj_missing) {
        return Py_NewRef(dj_missing);
    }
    switch (node->accessor) {
    case ATTR:
        return attribute(parent, node->arg);
    case DICT:
        return dict_of(parent);
    case INSTANCE:
        return found_or_missing(dj_instance_entry(parent, node->arg, &node->number));
    case SLOT:
        return member(parent, node->arg);
    case ITEM:
        return item(parent, node);
    case TYPE:
        return Py_NewRef(Py_TYPE(parent));
    case TYPE_ATTR:
        return PyType_Check(parent) ? found_or_missing(_PyType_Lookup((PyTypeObject *)parent, node->arg))
                                    : Py_NewRef(dj_missing);
    case CELL:
        return PyCell_Check(parent) ? found_or_missing(PyCell_GET(parent)) : Py_NewRef(dj_missing);
    case SIZE:
        return dj_tensor_size(parent, node->number);
    case CALL:
        return PyObject_CallOneArg(node->arg, parent);
    }
    Py_UNREACHABLE();
}
