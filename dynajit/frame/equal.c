/* Equality as guards mean it: a value that would make the same program. */
#include "frame.h"

/* The same items, each exactly equal; `expected` is searched by hash. */
static int
equal_sets(PyObject *value, PyObject *expected)
{
    Py_ssize_t position = 0;
    PyObject *item;
    Py_hash_t hash;
    int same = PySet_GET_SIZE(value) == PySet_GET_SIZE(expected);
    while (same == 1 && _PySet_NextEntry(value, &position, &item, &hash)) {
        Py_ssize_t where = 0;
        PyObject *other;
        Py_hash_t other_hash;
        same = 0;
        while (same == 0 && _PySet_NextEntry(expected, &where, &other, &other_hash)) {
            if (hash == other_hash) {
                same = dj_equal(item, other);
            }
        }
    }
    return same;
}

static int
equal_tuples(PyObject *value, PyObject *expected)
{
    int same = PyTuple_GET_SIZE(value) == PyTuple_GET_SIZE(expected);
    for (Py_ssize_t i = 0; same == 1 && i < PyTuple_GET_SIZE(value); i++) {
        same = dj_equal(PyTuple_GET_ITEM(value, i), PyTuple_GET_ITEM(expected, i));
    }
    return same;
}

/* slice and range: == would say that range(0) is range(1, 1), and slice(0) is slice(False). */
static int
equal_parts(PyObject *value, PyObject *expected)
{
    static const char *const names[] = {"start", "stop", "step"};
    int same = 1;
    for (int i = 0; same == 1 && i < 3; i++) {
        PyObject *one = PyObject_GetAttrString(value, names[i]);
        PyObject *other = PyObject_GetAttrString(expected, names[i]);
        same = one == NULL || other == NULL ? -1 : dj_equal(one, other);
        Py_XDECREF(one);
        Py_XDECREF(other);
    }
    return same;
}

/* Exact type and equal: floats by their bits (-0.0 is not 0.0, and a NaN equals the same NaN), tuples and frozensets
   item by item, anything else by ==. 1, 0, or -1 with an exception. */
int
dj_equal(PyObject *value, PyObject *expected)
{
    if (value == expected) {
        return 1;
    }
    if (Py_TYPE(value) != Py_TYPE(expected)) {
        return 0;
    }
    if (PyUnicode_CheckExact(value)) {
        return PyUnicode_Compare(value, expected) == 0;
    }
    if (PyFloat_CheckExact(value)) {
        return memcmp(&((PyFloatObject *)value)->ob_fval, &((PyFloatObject *)expected)->ob_fval, sizeof(double)) == 0;
    }
    if (PyComplex_CheckExact(value)) {
        return memcmp(&((PyComplexObject *)value)->cval, &((PyComplexObject *)expected)->cval, sizeof(Py_complex)) == 0;
    }
    int same;
    if (Py_EnterRecursiveCall(" in a guard")) {
        return -1;
    }
    if (PyTuple_Check(value)) {
        same = equal_tuples(value, expected);
    }
    else if (PyFrozenSet_CheckExact(value)) {
        same = equal_sets(value, expected);
    }
    else if (PySlice_Check(value) || PyRange_Check(value)) {
        same = equal_parts(value, expected);
    }
    else {
        same = PyObject_RichCompareBool(value, expected, Py_EQ);
    }
    Py_LeaveRecursiveCall();
    return same;
}
