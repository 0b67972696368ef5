/* Check: a guard program. Nodes fetch values, each from its parent; tests look at them; the first that fails ends it. */
#include "frame.h"
#include <structmember.h>

PyObject *dj_missing;

int
dj_check_run(Check *self, PyFunctionObject *func, PyObject *const *slots, Py_ssize_t nslots, PyObject **out,
             Where *where)
{
    /* Owned: values[0:done] except borrowed ones; self, which tests that run user code might let go of */
    PyObject *small[DJ_SMALL];
    PyObject **values = small;
    const Py_ssize_t nnodes = self->nnodes;
    Py_ssize_t done = 0, t = -1;
    int passed = 1;

    if (nnodes > DJ_SMALL) {
        values = PyMem_Malloc((size_t)nnodes * sizeof(PyObject *));
        if (values == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    Py_INCREF(self);
    while (passed == 1 && done < nnodes) {
        Node *node = &self->nodes[done];
        PyObject *value = dj_fetch(node, node->parent < 0 ? NULL : values[node->parent], func, slots, nslots);
        t = -1;
        if (value == NULL) {
            passed = -1;
            break;
        }
        values[done++] = value;
        for (t = node->first; t < node->last; t++) {
            passed = dj_test(&self->tests[t], value, values);
            if (passed != 1) {
                break;
            }
        }
    }
    if (passed == 1) {
        for (Py_ssize_t i = 0; i < self->ninputs; i++) {
            out[i] = Py_NewRef(values[self->inputs[i]]);
        }
    }
    else {
        if (passed < 0 && PyErr_ExceptionMatches(PyExc_Exception)) {
            PyErr_Clear(); /* what cannot be asked does not hold */
            passed = 0;
        }
        if (where != NULL) {
            where->node = t < 0 ? done : done - 1;
            where->test = t < 0 ? -1 : t - self->nodes[done - 1].first;
            where->value = t < 0 ? NULL : Py_NewRef(values[done - 1]);
        }
    }
    for (Py_ssize_t i = 0; i < done; i++) {
        if (!self->nodes[i].borrowed) {
            Py_DECREF(values[i]);
        }
    }
    if (values != small) {
        PyMem_Free(values);
    }
    Py_DECREF(self);
    return passed;
}

/* ---- making one ---- */

static int
parse_node(Check *self, Py_ssize_t index, PyObject *given)
{
    /* Owned: tests */
    Node *node = &self->nodes[index];
    PyObject *arg, *tests;
    node->first = node->last = self->ntests;
    if (!PyTuple_Check(given)
        || !PyArg_ParseTuple(given, "niOO;a node is (parent, accessor, arg, checks)", &node->parent, &node->accessor,
                             &arg, &tests)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "a node is a tuple (parent, accessor, arg, checks)");
        }
        return -1;
    }
    if (node->parent < -1 || node->parent >= index) {
        PyErr_Format(PyExc_ValueError, "node %zd: parents come before children, got %zd", index, node->parent);
        return -1;
    }
    node->arg = Py_NewRef(arg);
    if (dj_parse_accessor(node) < 0) {
        return -1;
    }
    tests = PySequence_Fast(tests, "checks must be a sequence of tuples");
    if (tests == NULL) {
        return -1;
    }
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(tests);
    int result = 0;
    if (count > 0) {
        Test *memory = PyMem_Realloc(self->tests, (size_t)(self->ntests + count) * sizeof(Test));
        if (memory == NULL) {
            PyErr_NoMemory();
            result = -1;
        }
        else {
            self->tests = memory;
            memset(memory + self->ntests, 0, (size_t)count * sizeof(Test));
        }
    }
    for (Py_ssize_t i = 0; result == 0 && i < count; i++) {
        Test *test = &self->tests[self->ntests++];
        result = dj_parse_test(test, PySequence_Fast_GET_ITEM(tests, i), index);
    }
    node->last = self->ntests;
    Py_DECREF(tests);
    return result;
}

static int
parse_inputs(Check *self)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(self->given_inputs);
    self->inputs = PyMem_Calloc((size_t)count + 1, sizeof(Py_ssize_t));
    if (self->inputs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        const Py_ssize_t index = PyLong_AsSsize_t(PyTuple_GET_ITEM(self->given_inputs, i));
        if (index == -1 && PyErr_Occurred()) {
            return -1;
        }
        if (index < 0 || index >= self->nnodes) {
            PyErr_Format(PyExc_ValueError, "input %zd: there is no node %zd", i, index);
            return -1;
        }
        self->inputs[i] = index;
    }
    self->ninputs = count;
    return 0;
}

static PyObject *
check_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"nodes", "inputs", NULL};
    PyObject *nodes, *inputs = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:Check", names, &nodes, &inputs)) {
        return NULL;
    }
    Check *self = (Check *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->given_nodes = PySequence_Tuple(nodes);
    self->given_inputs = inputs == NULL ? PyTuple_New(0) : PySequence_Tuple(inputs);
    if (self->given_nodes == NULL || self->given_inputs == NULL) {
        goto error;
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(self->given_nodes);
    self->nodes = PyMem_Calloc((size_t)count + 1, sizeof(Node));
    if (self->nodes == NULL) {
        PyErr_NoMemory();
        goto error;
    }
    while (self->nnodes < count) {
        const Py_ssize_t index = self->nnodes++;
        if (parse_node(self, index, PyTuple_GET_ITEM(self->given_nodes, index)) < 0) {
            goto error;
        }
    }
    if (parse_inputs(self) < 0) {
        goto error;
    }
    return (PyObject *)self;
error:
    Py_DECREF(self);
    return NULL;
}

static int
check_traverse(Check *self, visitproc visit, void *arg)
{
    Py_VISIT(self->given_nodes);
    Py_VISIT(self->given_inputs);
    for (Py_ssize_t i = 0; i < self->nnodes; i++) {
        Py_VISIT(self->nodes[i].arg);
    }
    for (Py_ssize_t i = 0; i < self->ntests; i++) {
        const int result = dj_visit_test(&self->tests[i], visit, arg);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

/* No tp_clear: a Check never changes, so each cycle through it also goes through something that can be cleared. */
static void
check_dealloc(Check *self)
{
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, check_dealloc)
    for (Py_ssize_t i = 0; i < self->nnodes; i++) {
        Py_XDECREF(self->nodes[i].arg);
    }
    for (Py_ssize_t i = 0; i < self->ntests; i++) {
        dj_free_test(&self->tests[i]);
    }
    PyMem_Free(self->nodes);
    PyMem_Free(self->tests);
    PyMem_Free(self->inputs);
    Py_XDECREF(self->given_nodes);
    Py_XDECREF(self->given_inputs);
    Py_TYPE(self)->tp_free(self);
    Py_TRASHCAN_END
}

/* ---- methods, for tests and reports ---- */

/* As dj_check_run, where nothing is captured. */
static int
run_apart(Check *self, PyFunctionObject *func, PyObject *slots, PyObject *out, Where *where)
{
    Thread *thread = &dj_thread;
    const Paused paused = dj_pause(thread);
    const int passed = dj_check_run(self, func, ((PyTupleObject *)slots)->ob_item, PyTuple_GET_SIZE(slots),
                                    ((PyTupleObject *)out)->ob_item, where);
    dj_go_on(thread, paused);
    return passed;
}

/* The slots as an owned tuple; the function borrowed. */
static PyObject *
parse_run(PyObject *args, const char *format, PyFunctionObject **func)
{
    PyObject *function, *slots;
    if (!PyArg_ParseTuple(args, format, &PyFunction_Type, &function, &slots)) {
        return NULL;
    }
    *func = (PyFunctionObject *)function;
    return PySequence_Tuple(slots);
}

static PyObject *
check_run(Check *self, PyObject *args)
{
    /* Owned: slots, inputs */
    PyFunctionObject *func;
    PyObject *slots = parse_run(args, "O!O:run", &func);
    if (slots == NULL) {
        return NULL;
    }
    PyObject *inputs = PyTuple_New(self->ninputs);
    if (inputs != NULL) {
        const int passed = run_apart(self, func, slots, inputs, NULL);
        if (passed != 1) {
            Py_SETREF(inputs, passed < 0 ? NULL : Py_NewRef(Py_None));
        }
    }
    Py_DECREF(slots);
    return inputs;
}

static PyObject *
check_explain(Check *self, PyObject *args)
{
    /* Owned: slots, out, where.value */
    PyFunctionObject *func;
    Where where = {-1, -1, NULL};
    PyObject *result = NULL;
    PyObject *slots = parse_run(args, "O!O:explain", &func);
    if (slots == NULL) {
        return NULL;
    }
    PyObject *out = PyTuple_New(self->ninputs);
    if (out != NULL) {
        const int passed = run_apart(self, func, slots, out, &where);
        if (passed == 1) {
            result = Py_NewRef(Py_None);
        }
        else if (passed == 0) {
            result = Py_BuildValue("nnO", where.node, where.test, where.value == NULL ? dj_missing : where.value);
        }
    }
    Py_XDECREF(where.value);
    Py_XDECREF(out);
    Py_DECREF(slots);
    return result;
}

static PyMethodDef check_methods[] = {
    {"run", (PyCFunction)check_run, METH_VARARGS,
     "run($self, func, slots, /)\n--\n\nThe inputs as a tuple, or None if the check fails."},
    {"explain", (PyCFunction)check_explain, METH_VARARGS,
     "explain($self, func, slots, /)\n--\n\nNone if it passes; else (node, check, value) of the first failure, "
     "check -1 if the value could not be fetched."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef check_members[] = {
    {"nodes", T_OBJECT, offsetof(Check, given_nodes), READONLY, "as given"},
    {"inputs", T_OBJECT, offsetof(Check, given_inputs), READONLY, "as given"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject dj_check_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.frame._hook.Check",
    .tp_basicsize = sizeof(Check),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Check(nodes, inputs=())\n--\n\nA guard program: nodes are (parent, accessor, arg, checks).",
    .tp_new = check_new,
    .tp_traverse = (traverseproc)check_traverse,
    .tp_dealloc = (destructor)check_dealloc,
    .tp_methods = check_methods,
    .tp_members = check_members,
};
