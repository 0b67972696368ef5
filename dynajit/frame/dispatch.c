/* Dispatch: find the entry for a call, run its replacement, go on with the resume function it hands back. */
#include "frame.h"
#include <pthread.h>

_Thread_local Thread dj_thread;

static PyObject *observer; /* set_observer; owned, may be NULL */

/* The values passed to a replacement: slots (borrowed), then inputs (owned). */
typedef struct {
    PyObject **items; /* `small`, or owned memory */
    PyObject *small[DJ_SMALL];
} Values;

/* Tell the observer; what goes wrong there is not the caller's business. Whether it did not say False. */
static bool
report(const char *what, PyObject *subject, PyObject *detail)
{
    bool consent = true;
    if (observer != NULL) {
        PyObject *fn = Py_NewRef(observer);
        PyObject *result = PyObject_CallFunction(fn, "sOO", what, subject, detail);
        if (result == NULL) {
            PyErr_WriteUnraisable(fn);
        }
        consent = result != Py_False;
        Py_XDECREF(result);
        Py_DECREF(fn);
    }
    return consent;
}

bool
dj_may_repeat(PyObject *graph, PyObject *exception)
{
    return report("graph raised", graph, exception);
}

/* ---- functions made from other code ---- */

static PyObject *
function_like(PyFunctionObject *func, PyObject *code, PyObject *closure)
{
    PyFunctionObject *made = (PyFunctionObject *)PyFunction_NewWithQualName(code, func->func_globals,
                                                                            func->func_qualname);
    if (made != NULL) {
        Py_XSETREF(made->func_name, Py_NewRef(func->func_name));
        Py_XSETREF(made->func_module, Py_XNewRef(func->func_module));
        Py_XSETREF(made->func_builtins, Py_NewRef(func->func_builtins));
        Py_XSETREF(made->func_closure, Py_XNewRef(closure));
    }
    return (PyObject *)made;
}

/* Whether a function made before will do for `func`. */
static inline bool
serves(PyObject *made, PyFunctionObject *func, PyObject *closure)
{
    PyFunctionObject *other = (PyFunctionObject *)made;
    return other != NULL && other->func_globals == func->func_globals && other->func_builtins == func->func_builtins
           && other->func_closure == closure && other->func_name == func->func_name
           && other->func_qualname == func->func_qualname;
}

/* New reference. A function with a closure is kept by the Dispatcher, which owns that closure anyway; keeping it with
   the entry would keep the cells of a function that is long gone. */
static PyObject *
replacement(Turn *turn, Entry *entry)
{
    PyObject *closure = turn->func->func_closure;
    Dispatcher *keeper = turn->dispatcher;
    PyObject *made;
    if (closure == NULL) {
        if (!serves(entry->function, turn->func, NULL)) {
            made = function_like(turn->func, entry->code, NULL);
            if (made == NULL) {
                return NULL;
            }
            Py_XSETREF(entry->function, made);
        }
        return Py_NewRef(entry->function);
    }
    if (keeper != NULL && keeper->last == entry && serves(keeper->function, turn->func, closure)) {
        return Py_NewRef(keeper->function);
    }
    made = function_like(turn->func, entry->code, closure);
    if (made != NULL && keeper != NULL) {
        Py_XSETREF(keeper->function, Py_NewRef(made));
        Py_XSETREF(keeper->last, (Entry *)Py_NewRef(entry));
    }
    return made;
}

/* New reference: the function that continues. */
static PyFunctionObject *
continuation(Turn *turn, Tail *tail)
{
    Resume *resume = tail->resume;
    const Py_ssize_t ncells = resume->code->co_nfreevars;
    if (ncells == 0) {
        if (!serves(resume->function, turn->func, NULL)) {
            PyObject *made = function_like(turn->func, (PyObject *)resume->code, NULL);
            if (made == NULL) {
                return NULL;
            }
            Py_XSETREF(resume->function, made);
        }
        return (PyFunctionObject *)Py_NewRef(resume->function);
    }
    PyObject *closure = PyTuple_New(ncells);
    if (closure == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < ncells; i++) {
        PyTuple_SET_ITEM(closure, i, Py_NewRef(tail->items[i]));
    }
    PyObject *made = function_like(turn->func, (PyObject *)resume->code, closure);
    Py_DECREF(closure);
    return (PyFunctionObject *)made;
}

/* ---- one turn ---- */

/* 1: the check passes, and the inputs stand in `values` behind the slots; 0; -1 with an exception. */
static int
try_entry(Turn *turn, Entry *entry, Values *values)
{
    Check *check = (Check *)entry->check;
    const Py_ssize_t count = turn->nslots + check->ninputs;
    values->items = values->small;
    if (count > DJ_SMALL) {
        values->items = PyMem_Malloc((size_t)count * sizeof(PyObject *));
        if (values->items == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    const int passed = dj_check_run(check, turn->func, turn->slots, turn->nslots, values->items + turn->nslots, NULL);
    if (passed != 1 && values->items != values->small) {
        PyMem_Free(values->items);
    }
    return passed;
}

static void
release(Turn *turn, Py_ssize_t ninputs, Values *values)
{
    for (Py_ssize_t i = 0; i < ninputs; i++) {
        Py_DECREF(values->items[turn->nslots + i]);
    }
    if (values->items != values->small) {
        PyMem_Free(values->items);
    }
}

/* As try_entry, for the entries kept with the code; *found is a new reference. A check may run user code, and that may
   change the list: then look again from the start, but not for ever. */
static int
find_entry(Dispatcher *context, Extra *extra, Turn *turn, Values *values, Entry **found)
{
    int restarts = 0;
    for (Py_ssize_t i = 0; i < extra->count; i++) {
        Entry *entry = extra->items[i];
        if (entry->options != context->options || entry->check == NULL) {
            continue;
        }
        const Py_ssize_t epoch = extra->epoch;
        Py_INCREF(entry);
        const int passed = try_entry(turn, entry, values);
        if (passed == 1) {
            if (i > 0) {
                dj_entry_to_front(extra, entry);
            }
            *found = entry;
            return 1;
        }
        Py_DECREF(entry);
        if (passed < 0) {
            return -1;
        }
        if (extra->epoch != epoch) {
            if (++restarts > 3) {
                return 0;
            }
            i = -1;
        }
    }
    return 0;
}

/* As find_entry, by asking on_miss. */
static int
make_entry(Thread *thread, Dispatcher *context, PyCodeObject *code, Turn *turn, Values *values, Entry **found)
{
    /* Owned: slots, answer */
    int passed = -1;
    PyObject *answer = NULL;
    PyObject *slots = PyTuple_New(turn->nslots);
    if (slots == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < turn->nslots; i++) {
        PyTuple_SET_ITEM(slots, i, Py_NewRef(turn->slots[i]));
    }
    PyObject *args[] = {(PyObject *)turn->func, slots, context->options};
    thread->compiling++;
    const Paused paused = dj_pause(thread);
    answer = PyObject_Vectorcall(context->on_miss, args, 3, NULL);
    dj_go_on(thread, paused);
    thread->compiling--;
    if (answer == NULL) {
        goto exit;
    }
    if (answer == Py_None) {
        passed = 0;
        goto exit;
    }
    if (!Py_IS_TYPE(answer, &dj_entry_type)) {
        PyErr_Format(PyExc_TypeError, "on_miss must return an Entry or None, not %.100s", Py_TYPE(answer)->tp_name);
        goto exit;
    }
    if (((Entry *)answer)->options != context->options) {
        PyErr_SetString(PyExc_ValueError, "on_miss returned an entry with other options than it was asked for");
        goto exit;
    }
    if (dj_entry_add(code, (Entry *)answer) < 0) {
        goto exit;
    }
    passed = try_entry(turn, (Entry *)answer, values);
    if (passed == 1) {
        *found = (Entry *)Py_NewRef(answer);
    }
    else if (passed == 0) {
        report("entry does not fit", answer, slots);
    }
exit:
    Py_DECREF(slots);
    Py_XDECREF(answer);
    return passed;
}

static PyObject *
run_replacement(Thread *thread, Dispatcher *context, Turn *turn, Entry *entry, Values *values)
{
    /* Owned: function */
    const Py_ssize_t count = turn->nslots + ((Check *)entry->check)->ninputs;
    PyObject *function = replacement(turn, entry);
    if (function == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < turn->nslots; i++) {
        values->items[i] = turn->slots[i];
    }
    if (entry->breaks) {
        dj_hook_enter(thread);
        thread->context = context;
        thread->pass = (PyCodeObject *)entry->code;
    }
    entry->hits++;
    PyObject *result = ((PyFunctionObject *)function)->vectorcall(function, values->items, (size_t)count, NULL);
    if (entry->breaks) {
        thread->context = NULL;
        thread->pass = NULL;
        dj_hook_leave(thread);
    }
    Py_DECREF(function);
    return result;
}

static PyObject *
run_natively(Thread *thread, Dispatcher *context, PyCodeObject *code, Turn *turn)
{
    PyObject *func = (PyObject *)turn->func;
    PyObject *result;
    thread->context = context;
    if (turn->frame != NULL) {
        Frame *frame = turn->frame;
        turn->frame = NULL; /* whoever runs it clears it */
        result = dj_delegate(thread, PyThreadState_Get(), frame, 0);
    }
    else {
        dj_hook_enter(thread);
        thread->pass = code;
        if (turn->call != NULL) {
            result = turn->func->vectorcall(func, turn->call, turn->nargsf, turn->kwnames);
        }
        else {
            result = turn->func->vectorcall(func, turn->slots, (size_t)turn->nslots, NULL);
        }
        thread->pass = NULL;
        dj_hook_leave(thread);
    }
    thread->context = NULL;
    return result;
}

/* True: the exception that ends the turn came out of a pure graph; it is gone, and the turn can be run natively. */
static bool
deoptimise(Thread *thread)
{
    /* Owned: failed, failure, raised */
    GraphCall *failed = thread->failed;
    PyObject *failure = thread->failure;
    bool again = false;
    thread->failed = NULL;
    thread->failure = NULL;
    PyObject *raised = dj_exception_take();
    if (raised == failure) {
        again = true;
        failed->failures++;
        report("graph failed", (PyObject *)failed, failure);
        Py_XDECREF(raised);
    }
    else if (raised != NULL) { /* user code caught the graph's exception and raised another one */
        dj_exception_put(raised);
    }
    Py_XDECREF(failed);
    Py_XDECREF(failure);
    return again;
}

static PyObject *
run_turn(Thread *thread, Dispatcher *context, Turn *turn)
{
    /* Owned: code, entry */
    PyCodeObject *code = (PyCodeObject *)Py_NewRef(turn->func->func_code);
    Extra *extra = dj_extra(code);
    Entry *entry = NULL;
    PyObject *result = NULL;
    Values values;
    int passed = 0;

    if (extra != NULL && (extra->flags & DJ_SKIP)) {
        result = run_natively(thread, context, code, turn);
        goto exit;
    }
    if (extra != NULL) {
        passed = find_entry(context, extra, turn, &values, &entry);
    }
    if (passed == 0) {
        passed = make_entry(thread, context, code, turn, &values, &entry);
    }
    if (passed < 0) {
        goto exit;
    }
    if (passed == 1) {
        const Py_ssize_t ninputs = ((Check *)entry->check)->ninputs;
        const bool native = entry->code == Py_None;
        if (native) {
            entry->hits++;
        }
        else {
            result = run_replacement(thread, context, turn, entry, &values);
        }
        release(turn, ninputs, &values);
        if (!native && (thread->failed == NULL || !deoptimise(thread))) {
            goto exit;
        }
    }
    result = run_natively(thread, context, code, turn);
exit:
    Py_XDECREF(entry);
    Py_DECREF(code);
    return result;
}

/* ---- the loop ---- */

static void
end_turn(Turn *turn)
{
    if (turn->frame != NULL) {
        Frame *frame = turn->frame;
        turn->frame = NULL;
        dj_frame_drop(PyThreadState_Get(), frame, turn->nslots);
    }
    Py_CLEAR(turn->tail);
    Py_CLEAR(turn->func);
}

/* Steals `tail`. */
static int
next_turn(Turn *turn, Tail *tail)
{
    PyFunctionObject *func = continuation(turn, tail);
    if (func == NULL) {
        Py_DECREF(tail);
        return -1;
    }
    end_turn(turn);
    const Py_ssize_t ncells = tail->resume->code->co_nfreevars;
    *turn = (Turn){.func = func, .slots = tail->items + ncells, .nslots = Py_SIZE(tail) - ncells, .tail = tail};
    return 0;
}

PyObject *
dj_dispatch(Thread *thread, Dispatcher *context, Turn *turn)
{
    /* Owned: what `turn` owns. Saved: what the surrounding dispatch left in `thread`. */
    Thread outer = *thread;
    PyObject *result;
    thread->context = NULL;
    thread->pass = NULL;
    thread->failed = NULL;
    thread->failure = NULL;
    thread->off = 0;
    thread->turns++;
    for (;;) {
        result = run_turn(thread, context, turn);
        if (thread->failed != NULL) { /* its exception was caught on the way */
            Py_CLEAR(thread->failed);
            Py_CLEAR(thread->failure);
        }
        if (result == NULL || !dj_is_tail(result)) {
            break;
        }
        if (next_turn(turn, (Tail *)result) < 0) {
            result = NULL;
            break;
        }
    }
    end_turn(turn);
    thread->turns--;
    thread->off = outer.off;
    thread->failure = outer.failure;
    thread->failed = outer.failed;
    thread->pass = outer.pass;
    thread->context = outer.context;
    return result;
}

/* ---- the C stack ---- */

/* Where this thread's C stack ends, asked once. CPython 3.11 does not count C frames apart from Python frames, so with
   a raised recursion limit only the address tells. */
void
dj_note_stack(Thread *thread)
{
    const size_t reserve = 256 * 1024;
    char *here = (char *)&here;
    char *low = NULL;
    size_t size = 0;
#ifdef __APPLE__
    size = pthread_get_stacksize_np(pthread_self());
    low = (char *)pthread_get_stackaddr_np(pthread_self()) - size;
#else
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        void *address = NULL;
        if (pthread_attr_getstack(&attributes, &address, &size) == 0) {
            low = address;
        }
        pthread_attr_destroy(&attributes);
    }
#endif
    if (low == NULL || low >= here) { /* not known: assume half a megabyte below here */
        size = 512 * 1024;
        low = here - size;
    }
    thread->stack_low = low;
    thread->stack_half = size / 2;
    thread->stack_reserve = size / 4 < reserve ? size / 4 : reserve;
}

/* ---- functions of the module ---- */

static PyObject *
set_observer(PyObject *Py_UNUSED(module), PyObject *fn)
{
    return dj_exchange(&observer, fn);
}

PyMethodDef dj_dispatch_methods[] = {
    {"set_observer", set_observer, METH_O,
     "set_observer($module, fn, /)\n--\n\nfn(what, subject, detail) hears of pure graphs that raised (and keeps them from "
     "being repeated by returning False), of those that failed, and of new entries that do not fit their call. Returns "
     "the one before."},
    {NULL, NULL, 0, NULL},
};
