/* The PEP 523 evaluator: installed while some thread runs code whose callees are to be captured, and then for that
   thread only. It answers one question: which code for this frame? */
#include "frame.h"

static int users;                     /* dispatches of all threads that want it installed */
static _PyFrameEvalFunction previous; /* whom it replaced: CPython's own, or another library's */

static PyObject *evaluate(PyThreadState *tstate, Frame *frame, int throwflag);

void
dj_hook_init(void)
{
    if (previous == NULL) {
        previous = _PyEval_EvalFrameDefault;
    }
}

static void
install(PyInterpreterState *interp)
{
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(interp);
    if (current != evaluate) {
        previous = current;
        _PyInterpreterState_SetEvalFrameFunc(interp, evaluate);
    }
}

/* If another library has put its evaluator above ours, it is not ours to remove. */
static void
uninstall(PyInterpreterState *interp)
{
    if (_PyInterpreterState_GetEvalFrameFunc(interp) == evaluate) {
        _PyInterpreterState_SetEvalFrameFunc(interp, previous);
    }
}

static void
want(int count)
{
    users += count;
    if (users == count) {
        install(PyInterpreterState_Get());
    }
}

static void
want_no_more(int count)
{
    users -= count;
    if (users == 0) {
        uninstall(PyInterpreterState_Get());
    }
}

void
dj_hook_enter(Thread *thread)
{
    thread->hooks++;
    want(1);
}

void
dj_hook_leave(Thread *thread)
{
    thread->hooks--;
    want_no_more(1);
}

Paused
dj_pause(Thread *thread)
{
    const Paused paused = {thread->context, thread->hooks};
    thread->context = NULL;
    if (paused.hooks > 0) {
        thread->hooks = 0;
        want_no_more(paused.hooks);
    }
    return paused;
}

void
dj_go_on(Thread *thread, Paused paused)
{
    thread->context = paused.context;
    if (paused.hooks > 0) {
        thread->hooks = paused.hooks;
        want(paused.hooks);
    }
}

/* Run a frame as if we were not there. Another library may have saved us as *its* previous evaluator: a frame that
   comes back goes to CPython. */
PyObject *
dj_delegate(Thread *thread, PyThreadState *tstate, Frame *frame, int throwflag)
{
    if (previous == _PyEval_EvalFrameDefault || thread->delegated == frame) {
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    Frame *outer = thread->delegated;
    thread->delegated = frame;
    PyObject *result = previous(tstate, frame, throwflag);
    thread->delegated = outer;
    return result;
}

/* The evaluator goes away, for all threads, until the frame returns: its callees are not captured, but behave as without
   us. An evaluator makes each Python call use C stack, so recursion would end earlier; and a tracer sees StopIteration
   twice where CPython cannot resume a coroutine without C (test_sys_settrace, test_20_async_for_loop). */
static PyObject *
run_unhooked(Thread *thread, PyThreadState *tstate, Frame *frame, int throwflag)
{
    uninstall(tstate->interp);
    PyObject *result = dj_delegate(thread, tstate, frame, throwflag);
    if (users > 0) {
        install(tstate->interp);
    }
    return result;
}

static PyObject *
evaluate(PyThreadState *tstate, Frame *frame, int throwflag)
{
    const int ordinary = CO_OPTIMIZED | CO_NEWLOCALS;
    Thread *thread = &dj_thread;
    /* Another library gives the frame back, or has put its evaluator above ours and is at work: not the time to capture. */
    if (thread->delegated == frame || _PyInterpreterState_GetEvalFrameFunc(tstate->interp) != evaluate) {
        if (thread->pass == dj_frame_code(frame)) {
            thread->pass = NULL;
        }
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    if (users == 0) { /* another library restored us after we had left */
        uninstall(tstate->interp);
    }
    if (thread->context == NULL || thread->off || dj_bypassed) {
        return dj_delegate(thread, tstate, frame, throwflag);
    }
    PyCodeObject *code = dj_frame_code(frame);
    if (code == thread->pass) {
        thread->pass = NULL;
        return dj_delegate(thread, tstate, frame, throwflag);
    }
    if (dj_stack_short(thread, &code, thread->stack_half) || dj_recursion_short(tstate) || dj_tracing(tstate, code)) {
        return run_unhooked(thread, tstate, frame, throwflag);
    }
    if (throwflag || dj_frame_of_generator(frame)
        || (code->co_flags & (ordinary | DJ_GENERATOR_FLAGS)) != ordinary) {
        return dj_delegate(thread, tstate, frame, throwflag);
    }
    Extra *extra = dj_extra(code);
    if (extra != NULL && (extra->flags & DJ_SKIP)) {
        return dj_delegate(thread, tstate, frame, 0);
    }
    Turn turn = {
        .func = (PyFunctionObject *)Py_NewRef(dj_frame_func(frame)),
        .slots = dj_frame_slots(frame),
        .nslots = dj_slot_count(code),
        .frame = frame,
    };
    return dj_dispatch(thread, thread->context, &turn);
}

/* ---- functions of the module ---- */

static PyObject *
with_interception_off(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    Thread *thread = &dj_thread;
    if (nargs < 1) {
        PyErr_SetString(PyExc_TypeError, "with_interception_off() needs a callable");
        return NULL;
    }
    const Paused paused = dj_pause(thread);
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)(nargs - 1), kwnames);
    dj_go_on(thread, paused);
    return result;
}

static PyObject *
users_of_evaluator(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyLong_FromLong(users);
}

static PyObject *
is_installed(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == evaluate);
}

static PyObject *
is_capturing(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(dj_thread.context != NULL && !dj_thread.off);
}

bool dj_bypassed;

static PyObject *
bypass(PyObject *Py_UNUSED(module), PyObject *on)
{
    const int truth = PyObject_IsTrue(on);
    if (truth < 0) {
        return NULL;
    }
    dj_bypassed = truth;
    Py_RETURN_NONE;
}

PyMethodDef dj_hook_methods[] = {
    {"bypass", bypass, METH_O,
     "bypass($module, on, /)\n--\n\nWhether every call runs as it is, in all threads; compiled calls under way end as such."},
    {"with_interception_off", _PyCFunction_CAST(with_interception_off), METH_FASTCALL | METH_KEYWORDS,
     "with_interception_off(callable, /, *args, **kwargs)\n\nCall something whose frames are not intercepted."},
    {"evaluator_users", users_of_evaluator, METH_NOARGS,
     "evaluator_users($module, /)\n--\n\nHow many dispatches want the evaluator installed."},
    {"evaluator_installed", is_installed, METH_NOARGS,
     "evaluator_installed($module, /)\n--\n\nWhether frames come to our evaluator first."},
    {"is_capturing", is_capturing, METH_NOARGS,
     "is_capturing($module, /)\n--\n\nWhether a frame entered by this thread now would be intercepted."},
    {NULL, NULL, 0, NULL},
};

/* ---- off() ---- */

typedef struct {
    PyObject_HEAD
} Off;

static PyObject *
off_enter(PyObject *self, PyObject *Py_UNUSED(unused))
{
    dj_thread.off++;
    return Py_NewRef(self);
}

static PyObject *
off_exit(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(args))
{
    if (dj_thread.off > 0) {
        dj_thread.off--;
    }
    Py_RETURN_NONE;
}

static PyMethodDef off_methods[] = {
    {"__enter__", off_enter, METH_NOARGS, NULL},
    {"__exit__", off_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject dj_off_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.frame._hook.off",
    .tp_basicsize = sizeof(Off),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "off()\n--\n\nContext in which frames of this thread are not intercepted; may be nested.",
    .tp_new = PyType_GenericNew,
    .tp_methods = off_methods,
};
