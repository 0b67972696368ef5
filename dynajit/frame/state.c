/* Ambient states of torch that are read so often that asking Python is too slow: functions of libtorch that say the same
   as a Python callable. Each is compared with its callable when it is found, and left to Python where they differ. */
#include "tensors.h"
#include <dlfcn.h>

enum { TRUTH, COUNT, DTYPE };

typedef union {
    void *address;
    bool (*truth)(void);
    int64_t (*count)(void);
    int8_t (*dtype)(void);
} Function;

/* Number 0 is not used: it means "not known". AUTOCAST has no function of its own. */
enum { AUTOCAST = 1, STATES = 7 };

static struct {
    const char *name;     /* of torch or torch._C */
    const char *symbol;
    int kind;
    Function function;    /* NULL: not known */
    PyObject *callable;   /* owned, may be NULL */
} states[STATES] = {
    [AUTOCAST] = {"_is_any_autocast_enabled", "_ZN3c104impl26raw_local_dispatch_key_setE", TRUTH, {NULL}, NULL},
    {"is_grad_enabled", "aoti_torch_grad_mode_is_enabled", TRUTH, {NULL}, NULL},
    {"is_inference_mode_enabled", "_ZN3c1013InferenceMode10is_enabledEv", TRUTH, {NULL}, NULL},
    {"get_default_dtype", "_ZN3c1031get_default_dtype_as_scalartypeEv", DTYPE, {NULL}, NULL},
    {"_len_torch_function_stack", "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", COUNT, {NULL}, NULL},
    {"_len_torch_dispatch_stack", "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", COUNT, {NULL}, NULL},
};

/* ---- autocast ---- */

/* c10/core/impl/LocalDispatchKeySet.h: a thread's dispatch keys, {included, excluded}. Autocast is on for a device if its
   key is not excluded, so the answer for one set of excluded keys never changes. */
static struct {
    uint64_t excluded;
    int answer; /* -1: not asked yet */
} autocast = {0, -1};

static const uint64_t *
dispatch_keys(void)
{
    Thread *thread = &dj_thread;
    if (thread->dispatch_keys == NULL) { /* for a thread-local symbol dlsym gives this thread's address */
        thread->dispatch_keys = dj_find_symbol(states[AUTOCAST].symbol);
    }
    return thread->dispatch_keys;
}

/* Owned: answer */
static int
ask_truth(PyObject *callable)
{
    PyObject *answer = dj_call_no_args(callable);
    const int truth = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return truth;
}

static int
autocast_enabled(void)
{
    const uint64_t *keys = dispatch_keys();
    if (keys == NULL) {
        return ask_truth(states[AUTOCAST].callable);
    }
    if (autocast.answer < 0 || autocast.excluded != keys[1]) {
        const uint64_t excluded = keys[1];
        const int answer = ask_truth(states[AUTOCAST].callable);
        if (answer < 0) {
            return -1;
        }
        autocast.excluded = excluded;
        autocast.answer = answer;
    }
    return autocast.answer;
}

/* Whether switching autocast on and off shows in the excluded keys, there and back. Owned: was, other, result. */
static bool
autocast_shows(PyObject *core)
{
    const uint64_t *keys = dispatch_keys();
    bool shows = false;
    PyObject *result = NULL;
    PyObject *was = keys == NULL ? NULL : PyObject_CallMethod(core, "is_autocast_enabled", "s", "cpu");
    if (was == NULL || !PyBool_Check(was)) {
        goto exit;
    }
    const uint64_t before = keys[1];
    PyObject *other = was == Py_True ? Py_False : Py_True;
    result = PyObject_CallMethod(core, "set_autocast_enabled", "sO", "cpu", other);
    if (result != NULL) {
        shows = keys[1] != before;
        Py_SETREF(result, PyObject_CallMethod(core, "set_autocast_enabled", "sO", "cpu", was));
        shows = shows && result != NULL && keys[1] == before;
    }
exit:
    Py_XDECREF(was);
    Py_XDECREF(result);
    PyErr_Clear();
    return shows;
}

/* ---- all of them ---- */

int64_t
dj_state(int known)
{
    if (known == AUTOCAST) {
        return autocast_enabled();
    }
    switch (states[known].kind) {
    case TRUTH:
        return states[known].function.truth();
    case COUNT:
        return states[known].function.count();
    default:
        return states[known].function.dtype();
    }
}

/* The number that stands for a callable's answer. */
static bool
as_number(int kind, PyObject *answer, int64_t *number)
{
    int32_t code;
    if (kind == TRUTH && PyBool_Check(answer)) {
        *number = answer == Py_True;
        return true;
    }
    if (kind == COUNT && PyLong_CheckExact(answer)) {
        *number = PyLong_AsLongLong(answer);
        return *number >= 0 || (PyErr_Clear(), false);
    }
    if (kind == DTYPE && dj_find_code(dj_dtypes, answer, &code)) {
        *number = code;
        return true;
    }
    return false;
}

int
dj_known_state(PyObject *callable, PyObject *expected, int64_t *number)
{
    for (int i = 1; i < STATES; i++) {
        if (states[i].function.address != NULL && states[i].callable == callable) {
            return as_number(states[i].kind, expected, number) ? i : 0;
        }
    }
    return 0;
}

/* Owned: answer */
static bool
agrees(int known, PyObject *core)
{
    int64_t number;
    PyObject *answer = PyObject_CallNoArgs(states[known].callable);
    const bool same = answer != NULL && as_number(states[known].kind, answer, &number) && dj_state(known) == number
                      && (known != AUTOCAST || autocast_shows(core));
    Py_XDECREF(answer);
    PyErr_Clear();
    return same;
}

void
dj_find_states(PyObject *torch)
{
    PyObject *core = PyObject_GetAttrString(torch, "_C");
    autocast.answer = -1;
    for (int i = 1; core != NULL && i < STATES; i++) {
        Py_XSETREF(states[i].callable, PyObject_GetAttrString(core, states[i].name));
        const bool usable = dj_shim.active && states[i].callable != NULL;
        states[i].function.address = usable ? dj_find_symbol(states[i].symbol) : NULL;
        if (states[i].function.address != NULL && !agrees(i, core)) {
            states[i].function.address = NULL;
        }
        PyErr_Clear();
    }
    Py_XDECREF(core);
    PyErr_Clear();
}
