/* Tests: what a node of a guard program asks of its value. */
#include "frame.h"

enum {
    IS, IS_NOT, TYPE_IS, EQUALS, LENGTH, KEYS, PRESENT, ABSENT, TENSOR, TYPE_ATTRS, DICT_VALUES, CODE, NOT_SAME, SAME,
    NO_OVERLAP, STATE, PREDICATE, RELATION, EMPTY, INSTANCE_VALUES, TESTS
};

static const struct {
    const char *name;
    int arguments;
} kinds[TESTS] = {
    {"IS", 1}, {"IS_NOT", 1}, {"TYPE_IS", 1}, {"EQUALS", 1}, {"LENGTH", 1}, {"KEYS", 1}, {"PRESENT", 0}, {"ABSENT", 0},
    {"TENSOR", 1}, {"TYPE_ATTRS", 1}, {"DICT_VALUES", 1}, {"CODE", 1}, {"NOT_SAME", 1}, {"SAME", 1}, {"NO_OVERLAP", 1},
    {"STATE", 1}, {"PREDICATE", 1}, {"RELATION", 2}, {"EMPTY", 1}, {"INSTANCE_VALUES", 1},
};

PyObject *dj_code_equal;

int
dj_add_test_constants(PyObject *module)
{
    for (int i = 0; i < TESTS; i++) {
        if (PyModule_AddIntConstant(module, kinds[i].name, i) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- containers ---- */

static int
has_length(PyObject *value, Py_ssize_t expected)
{
    Py_ssize_t size;
    if (PyTuple_Check(value) || PyList_Check(value)) {
        size = Py_SIZE(value);
    }
    else if (PyDict_Check(value)) {
        size = PyDict_GET_SIZE(value);
    }
    else if (PyAnySet_Check(value)) {
        size = PySet_GET_SIZE(value);
    }
    else if (value == dj_missing) {
        return 0;
    }
    else {
        size = PyObject_Size(value);
        if (size < 0) {
            return -1;
        }
    }
    return size == expected;
}

/* An OrderedDict keeps an order of its own (move_to_end). Owned: iterator, key. */
static int
has_ordered_keys(PyObject *value, PyObject *expected)
{
    PyObject *iterator = PyODict_Type.tp_iter(value);
    int same = iterator == NULL ? -1 : 1;
    for (Py_ssize_t i = 0; same == 1 && i < PyTuple_GET_SIZE(expected); i++) {
        PyObject *key = PyIter_Next(iterator);
        if (key == NULL) {
            same = PyErr_Occurred() ? -1 : 0;
            break;
        }
        same = dj_equal(key, PyTuple_GET_ITEM(expected, i));
        Py_DECREF(key);
    }
    Py_XDECREF(iterator);
    return same;
}

static int
has_keys(PyObject *value, PyObject *expected)
{
    Py_ssize_t position = 0;
    PyObject *key;
    if (!PyDict_Check(value) || PyDict_GET_SIZE(value) != PyTuple_GET_SIZE(expected)) {
        return 0;
    }
    if (PyODict_Check(value)) {
        return has_ordered_keys(value, expected);
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(expected); i++) {
        if (!PyDict_Next(value, &position, &key, NULL)) {
            return 0;
        }
        PyObject *wanted = PyTuple_GET_ITEM(expected, i);
        if (key != wanted) {
            Py_INCREF(key);
            const int same = dj_equal(key, wanted);
            Py_DECREF(key);
            if (same != 1) {
                return same;
            }
        }
    }
    return 1;
}

/* ---- stamped tests ---- */

static int
has_type_attributes(Test *test, PyObject *value)
{
    if (!PyType_Check(value)) {
        return 0;
    }
    PyTypeObject *type = (PyTypeObject *)value;
    unsigned int version = dj_type_version(type);
    if (version != 0 && version == test->stamp) {
        return 1;
    }
    for (Py_ssize_t i = 0; i < test->count; i++) {
        PyObject *found = _PyType_Lookup(type, test->expected[i].key);
        if ((found == NULL ? dj_missing : found) != test->expected[i].expected) {
            return 0;
        }
    }
    test->stamp = dj_type_version(type); /* the look-ups gave the type a tag, if it can have one */
    return 1;
}

static int
has_dict_values(Test *test, PyObject *value)
{
    if (!PyDict_Check(value)) {
        return 0;
    }
    const uint64_t version = dj_dict_version(value);
    if (version == test->stamp && version != 0) {
        return 1;
    }
    for (Py_ssize_t i = 0; i < test->count; i++) {
        PyObject *found = PyDict_GetItemWithError(value, test->expected[i].key);
        if (found == NULL && PyErr_Occurred()) {
            return -1;
        }
        if ((found == NULL ? dj_missing : found) != test->expected[i].expected) {
            return 0;
        }
    }
    if (dj_dict_version(value) == version) { /* not if a key's __eq__ changed the dict */
        test->stamp = version;
    }
    return 1;
}

/* As has_dict_values of the instance's __dict__, which is not made for it. */
static int
has_instance_values(Test *test, PyObject *value)
{
    PyDictKeysObject *keys = NULL;
    if (value == dj_missing) {
        return 0;
    }
    PyObject *dict = dj_inline_values(value, &keys) == NULL ? dj_instance_dict(value) : NULL;
    if (dict != NULL) {
        return has_dict_values(test, dict);
    }
    for (Py_ssize_t i = 0; i < test->count; i++) {
        Expected *item = &test->expected[i];
        PyObject *found = dj_instance_entry(value, item->key, &item->hint);
        if (found == NULL && PyErr_Occurred()) {
            return -1;
        }
        if ((found == NULL ? dj_missing : found) != item->expected) {
            return 0;
        }
    }
    return 1;
}

/* Entries of the instance's __dict__ that are dicts without entries. */
static int
are_empty(Test *test, PyObject *value)
{
    PyDictKeysObject *keys = NULL;
    if (value == dj_missing) {
        return 0;
    }
    PyObject *dict = dj_inline_values(value, &keys) == NULL ? dj_instance_dict(value) : NULL;
    const uint64_t version = dict == NULL ? 0 : dj_dict_version(dict);
    if (version != 0 && version == test->stamp) { /* the same entries: the dict keeps them alive */
        for (Py_ssize_t i = 0; i < test->count; i++) {
            if (PyDict_GET_SIZE(test->expected[i].last) != 0) {
                return 0;
            }
        }
        return 1;
    }
    test->stamp = 0;
    for (Py_ssize_t i = 0; i < test->count; i++) {
        Expected *item = &test->expected[i];
        PyObject *found = dj_instance_entry(value, item->key, &item->hint);
        if (found == NULL || !PyDict_Check(found) || PyDict_GET_SIZE(found) != 0) {
            return found == NULL && PyErr_Occurred() ? -1 : 0;
        }
        item->last = found;
    }
    test->stamp = version;
    return 1;
}

/* ---- the rest ---- */

static int
has_code(Test *test, PyObject *value)
{
    if (!PyFunction_Check(value)) {
        return 0;
    }
    PyObject *code = ((PyFunctionObject *)value)->func_code;
    if (code == test->arg) {
        return 1;
    }
    if (dj_code_equal == NULL) {
        return 0;
    }
    /* Owned: code, expected, fn, answer (another thread may renew the expectation meanwhile) */
    PyObject *expected = Py_NewRef(test->arg);
    PyObject *fn = Py_NewRef(dj_code_equal);
    PyObject *args[] = {Py_NewRef(code), expected};
    PyObject *answer = PyObject_Vectorcall(fn, args, 2, NULL);
    const int same = answer == NULL ? -1 : PyObject_IsTrue(answer);
    if (same == 1) {
        Py_XSETREF(test->arg, Py_NewRef(code));
    }
    Py_XDECREF(answer);
    Py_DECREF(code);
    Py_DECREF(expected);
    Py_DECREF(fn);
    return same;
}

static int
has_no_overlap(Test *test, PyObject *value, PyObject *const *values)
{
    for (Py_ssize_t i = 0; i < test->count; i++) {
        const int apart = dj_tensors_apart(value, values[test->others[i]]);
        if (apart != 1) {
            return apart;
        }
    }
    return 1;
}

/* As PyObject_CallNoArgs; a builtin without parameters is called without ado. */
PyObject *
dj_call_no_args(PyObject *callable)
{
    if (PyCFunction_CheckExact(callable) && PyCFunction_GET_FLAGS(callable) == METH_NOARGS) {
        return PyCFunction_GET_FUNCTION(callable)(PyCFunction_GET_SELF(callable), NULL);
    }
    return PyObject_CallNoArgs(callable);
}

static int
state_holds(Test *test)
{
    for (Py_ssize_t i = 0; i < test->count; i++) {
        Expected *item = &test->expected[i];
        int same;
        if (item->known) {
            const int64_t number = dj_state(item->known);
            same = number == -1 ? -1 : number == item->number;
        }
        else {
            PyObject *value = dj_call_no_args(item->key);
            if (value == NULL) {
                return -1;
            }
            same = dj_equal(value, item->expected);
            Py_DECREF(value);
        }
        if (same != 1) {
            return same;
        }
    }
    return 1;
}

static int
predicate_holds(PyObject *predicate, PyObject *value)
{
    if (value == dj_missing) {
        return 0;
    }
    PyObject *answer = PyObject_CallOneArg(predicate, value);
    if (answer == NULL) {
        return -1;
    }
    const int truth = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return truth;
}

enum { RELATED = 8 }; /* values that one RELATION may be about */

static int
relation_holds(Test *test, PyObject *const *values)
{
    PyObject *args[RELATED];
    for (Py_ssize_t i = 0; i < test->count; i++) {
        args[i] = values[test->others[i]];
        if (args[i] == dj_missing) {
            return 0;
        }
    }
    PyObject *answer = PyObject_Vectorcall(test->arg, args, (size_t)test->count, NULL);
    if (answer == NULL) {
        return -1;
    }
    const int truth = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return truth;
}

int
dj_test(Test *test, PyObject *value, PyObject *const *values)
{
    switch (test->kind) {
    case IS:
        return value == test->arg;
    case IS_NOT:
        return value != test->arg;
    case TYPE_IS:
        return (PyObject *)Py_TYPE(value) == test->arg;
    case EQUALS:
        return dj_equal(value, test->arg);
    case LENGTH:
        return has_length(value, test->number);
    case KEYS:
        return has_keys(value, test->arg);
    case PRESENT:
        return value != dj_missing;
    case ABSENT:
        return value == dj_missing;
    case TENSOR:
        return dj_tensor_test(test->tensor, value);
    case TYPE_ATTRS:
        return has_type_attributes(test, value);
    case DICT_VALUES:
        return has_dict_values(test, value);
    case CODE:
        return has_code(test, value);
    case NOT_SAME:
        return value != values[test->number];
    case SAME:
        return value == values[test->number];
    case NO_OVERLAP:
        return has_no_overlap(test, value, values);
    case STATE:
        return state_holds(test);
    case PREDICATE:
        return predicate_holds(test->arg, value);
    case RELATION:
        return relation_holds(test, values);
    case EMPTY:
        return are_empty(test, value);
    case INSTANCE_VALUES:
        return has_instance_values(test, value);
    }
    Py_UNREACHABLE();
}

/* ---- making one ---- */

static int
wrong(const char *kind, const char *what)
{
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "%s takes %s", kind, what);
    }
    return -1;
}

static int
allocate_expected(Test *test, Py_ssize_t count)
{
    test->expected = PyMem_Calloc((size_t)count + 1, sizeof(Expected));
    if (test->expected == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int
parse_names(Test *test, bool intern)
{
    Py_ssize_t position = 0;
    PyObject *key, *expected;
    if (!PyDict_Check(test->arg) || allocate_expected(test, PyDict_GET_SIZE(test->arg)) < 0) {
        return wrong(kinds[test->kind].name, "a dict");
    }
    while (PyDict_Next(test->arg, &position, &key, &expected)) {
        Expected *item = &test->expected[test->count++];
        item->key = Py_NewRef(key);
        item->expected = Py_NewRef(expected);
        if (PyUnicode_CheckExact(key)) {
            PyUnicode_InternInPlace(&item->key);
        }
        else if (intern) {
            return wrong(kinds[test->kind].name, "a dict of names");
        }
    }
    return 0;
}

static int
parse_states(Test *test)
{
    if (!PyTuple_Check(test->arg) || allocate_expected(test, PyTuple_GET_SIZE(test->arg)) < 0) {
        return wrong("STATE", "a tuple of (callable, expected)");
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(test->arg); i++) {
        PyObject *pair = PyTuple_GET_ITEM(test->arg, i);
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2 || !PyCallable_Check(PyTuple_GET_ITEM(pair, 0))) {
            return wrong("STATE", "a tuple of (callable, expected)");
        }
        Expected *item = &test->expected[test->count++];
        item->key = Py_NewRef(PyTuple_GET_ITEM(pair, 0));
        item->expected = Py_NewRef(PyTuple_GET_ITEM(pair, 1));
        item->known = dj_known_state(item->key, item->expected, &item->number);
    }
    return 0;
}

/* A node that stands before this one, so that its value is there. */
static int
parse_other(PyObject *given, Py_ssize_t node, Py_ssize_t *other)
{
    *other = PyLong_AsSsize_t(given);
    if (*other == -1 && PyErr_Occurred()) {
        return -1;
    }
    if (*other < 0 || *other > node) {
        PyErr_Format(PyExc_ValueError, "node %zd cannot be compared with node %zd, which is not there yet", node, *other);
        return -1;
    }
    return 0;
}

static int
parse_others(Test *test, PyObject *given, Py_ssize_t node)
{
    if (!PyTuple_Check(given)) {
        return wrong(kinds[test->kind].name, "a tuple of node indexes");
    }
    test->others = PyMem_Calloc((size_t)PyTuple_GET_SIZE(given) + 1, sizeof(Py_ssize_t));
    if (test->others == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    while (test->count < PyTuple_GET_SIZE(given)) {
        if (parse_other(PyTuple_GET_ITEM(given, test->count), node, &test->others[test->count]) < 0) {
            return -1;
        }
        test->count++;
    }
    return 0;
}

static int
parse_relation(Test *test, PyObject *others, Py_ssize_t node)
{
    if (!PyCallable_Check(test->arg) || !PyTuple_Check(others) || PyTuple_GET_SIZE(others) > RELATED) {
        return wrong("RELATION", "a callable and a tuple of at most 8 node indexes");
    }
    return parse_others(test, others, node);
}

int
dj_parse_test(Test *test, PyObject *given, Py_ssize_t node)
{
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) < 1) {
        return wrong("a check", "the form (kind, ...)");
    }
    static const char *const arguments[] = {"no argument", "one argument", "two arguments"};
    const long kind = PyLong_AsLong(PyTuple_GET_ITEM(given, 0));
    if (kind < 0 || kind >= TESTS) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "there is no check %ld", kind);
        }
        return -1;
    }
    if (PyTuple_GET_SIZE(given) != kinds[kind].arguments + 1) {
        return wrong(kinds[kind].name, arguments[kinds[kind].arguments]);
    }
    test->kind = (int)kind;
    if (kinds[kind].arguments == 0) {
        return 0;
    }
    test->arg = Py_NewRef(PyTuple_GET_ITEM(given, 1));
    switch (kind) {
    case TYPE_IS:
        return PyType_Check(test->arg) ? 0 : wrong("TYPE_IS", "a type");
    case LENGTH:
        test->number = PyLong_AsSsize_t(test->arg);
        return test->number == -1 && PyErr_Occurred() ? -1 : 0;
    case KEYS:
        return PyTuple_Check(test->arg) ? 0 : wrong("KEYS", "a tuple");
    case TENSOR:
        test->tensor = dj_tensor_spec(test->arg);
        return test->tensor == NULL ? -1 : 0;
    case TYPE_ATTRS:
        return parse_names(test, true);
    case DICT_VALUES:
        return parse_names(test, false);
    case EMPTY:
    case INSTANCE_VALUES:
        return parse_names(test, true);
    case CODE:
        return PyCode_Check(test->arg) ? 0 : wrong("CODE", "a code object");
    case NOT_SAME:
    case SAME:
        return parse_other(test->arg, node, &test->number);
    case NO_OVERLAP:
        return parse_others(test, test->arg, node);
    case STATE:
        return parse_states(test);
    case PREDICATE:
        return PyCallable_Check(test->arg) ? 0 : wrong("PREDICATE", "a callable");
    case RELATION:
        return parse_relation(test, PyTuple_GET_ITEM(given, 2), node);
    default:
        return 0;
    }
}

void
dj_free_test(Test *test)
{
    if (test->expected != NULL) {
        for (Py_ssize_t i = 0; i < test->count; i++) {
            Py_XDECREF(test->expected[i].key);
            Py_XDECREF(test->expected[i].expected);
        }
        PyMem_Free(test->expected);
    }
    PyMem_Free(test->others);
    dj_tensor_spec_free(test->tensor);
    Py_XDECREF(test->arg);
}

int
dj_visit_test(Test *test, visitproc visit, void *arg)
{
    Py_VISIT(test->arg);
    for (Py_ssize_t i = 0; test->expected != NULL && i < test->count; i++) {
        Py_VISIT(test->expected[i].key);
        Py_VISIT(test->expected[i].expected);
    }
    return test->tensor == NULL ? 0 : dj_tensor_spec_visit(test->tensor, visit, arg);
}
