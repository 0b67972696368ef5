/* The types of dynajit.frame._hook and what its files ask of each other.

   Words: a *call* of a Dispatcher or a frame seen by the evaluator is dispatched in one or more *turns*; each turn runs
   one function (the original, then resume functions handed back as Tail objects). The *slots* of a function are its
   bound parameters in the order of co_varnames.

   State is kept in C statics: the module refuses to be loaded in a sub-interpreter. All of it is guarded by the GIL. */
#ifndef DYNAJIT_FRAME_H
#define DYNAJIT_FRAME_H

#include "compat.h"

#pragma GCC visibility push(hidden)

#define DJ_GENERATOR_FLAGS (CO_GENERATOR | CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR)
#define DJ_SMALL 40 /* values kept on the C stack before memory is asked for */
#define DJ_SEARCHED 64 /* entries of a dict that are looked through for where a key is */

/* ---- guards.c, access.c, checks.c, equal.c, tensors.c, shim.c, state.c, configure.c: the guard program ---- */

typedef struct TensorSpec TensorSpec;

/* What names are expected to stand for: attributes of a type, entries of a dict, results of callables. */
typedef struct {
    PyObject *key;      /* owned */
    PyObject *expected; /* owned; dj_missing: absent */
    int known;          /* STATE: which callable this is, if shim.c can answer for it; 0: it cannot */
    int64_t number;     /* and the answer expected of it */
    Py_ssize_t hint;    /* EMPTY, INSTANCE_VALUES: where the name was found last */
    PyObject *last;     /* EMPTY: what was found, valid while the stamp is; borrowed */
} Expected;

typedef struct {
    int kind;
    PyObject *arg;         /* owned; as given */
    Py_ssize_t number;     /* LENGTH, SAME, NOT_SAME */
    Py_ssize_t count;      /* items in `expected` or `others` */
    Expected *expected;    /* owned memory */
    Py_ssize_t *others;    /* owned memory: NO_OVERLAP, RELATION */
    TensorSpec *tensor;    /* owned memory */
    uint64_t stamp;        /* version tag at the last full pass; 0: none */
} Test;

typedef struct {
    Py_ssize_t parent; /* -1: a root */
    int accessor;
    bool borrowed;     /* the value is kept alive by the call */
    PyObject *arg;     /* owned; as given, names interned */
    Py_ssize_t number; /* LOCAL, FREE, SIZE: which; ITEM: the index; INSTANCE: where the name was found last */
    Py_ssize_t first, last; /* tests[first:last] */
    uint64_t stamp;   /* ITEM of a dict: its version when `found` was read; 0: none */
    PyObject *found;  /* borrowed: what that version of the dict holds, and keeps alive */
} Node;

typedef struct {
    PyObject_HEAD
    Py_ssize_t nnodes, ntests, ninputs;
    Node *nodes;
    Test *tests;
    Py_ssize_t *inputs;
    PyObject *given_nodes, *given_inputs; /* owned: the arguments, readable */
} Check;

typedef struct {
    Py_ssize_t node, test; /* test -1: the value could not be fetched */
    PyObject *value;       /* owned, may be NULL */
} Where;

extern PyTypeObject dj_check_type;
extern PyObject *dj_missing; /* the singleton MISSING */
extern PyObject *dj_code_equal; /* set_code_equal; owned, may be NULL */

/* 1: passes, and the inputs' values are in `out` as new references; 0: fails; -1: exception that must go on. */
int dj_check_run(Check *self, PyFunctionObject *func, PyObject *const *slots, Py_ssize_t nslots, PyObject **out,
                 Where *where);
/* New reference, or borrowed if node->borrowed; NULL with an exception. */
PyObject *dj_fetch(Node *node, PyObject *parent, PyFunctionObject *func, PyObject *const *slots, Py_ssize_t nslots);
int dj_parse_accessor(Node *node);
/* Borrowed: an entry of the instance's __dict__, which is not made for it. NULL: none, or an exception. */
PyObject *dj_instance_entry(PyObject *obj, PyObject *name, Py_ssize_t *hint);
/* New reference: a size of a tensor, MISSING if it has none there. */
PyObject *dj_tensor_size(PyObject *tensor, Py_ssize_t dim);
/* 1, 0, or -1 with an exception. */
int dj_test(Test *test, PyObject *value, PyObject *const *values);
int dj_parse_test(Test *test, PyObject *given, Py_ssize_t node);
void dj_free_test(Test *test);
int dj_visit_test(Test *test, visitproc visit, void *arg);
PyObject *dj_call_no_args(PyObject *callable);
int dj_equal(PyObject *value, PyObject *expected);

TensorSpec *dj_tensor_spec(PyObject *given);
void dj_tensor_spec_free(TensorSpec *spec);
int dj_tensor_spec_visit(TensorSpec *spec, visitproc visit, void *arg);
int dj_tensor_test(const TensorSpec *spec, PyObject *value);
int dj_tensors_apart(PyObject *one, PyObject *other); /* 1: no storage in common */
/* Which callable this is and the number that stands for `expected`; 0: ask the callable itself. */
int dj_known_state(PyObject *callable, PyObject *expected, int64_t *number);
int64_t dj_state(int known); /* -1 with an exception */
PyObject *dj_configure(PyObject *module, PyObject *torch);
PyObject *dj_shim_active(PyObject *module, PyObject *unused);

int dj_add_constants(PyObject *module);
int dj_add_test_constants(PyObject *module);

/* ---- entries.c: what is kept with a code object ---- */

typedef struct {
    PyObject_HEAD
    PyObject *check;     /* owned Check; NULL once cleared by the collector: never matches */
    PyObject *code;      /* owned; None: run the original */
    PyObject *options;   /* owned; compared by identity */
    PyObject *owner;     /* owned */
    PyObject *function;  /* owned, may be NULL: the replacement for the last globals, without closure */
    Py_ssize_t hits;
    char breaks;
} Entry;

enum { DJ_SKIP = 1, DJ_HIDE = 2 };

typedef struct {
    int flags;
    int dispatchers;     /* Dispatchers made for this code */
    Py_ssize_t epoch;    /* counts changes of the list */
    Py_ssize_t count, capacity;
    Entry **items;       /* owned, most recently hit first */
} Extra;

extern PyTypeObject dj_entry_type;

int dj_entries_init(void);
Extra *dj_extra(PyCodeObject *code);      /* NULL: none */
Extra *dj_extra_make(PyCodeObject *code); /* NULL with an exception */
int dj_entry_add(PyCodeObject *code, Entry *entry);
void dj_entry_to_front(Extra *extra, Entry *entry);
void dj_entries_clear(Extra *extra);
extern PyMethodDef dj_entries_methods[];

/* ---- graph.c: the objects that replacement code calls ---- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *fn;    /* owned; one store swaps it */
    PyObject *label; /* owned */
    Py_ssize_t calls, failures;
    char pure;
} GraphCall;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyCodeObject *code; /* owned */
    PyObject *owner;    /* owned */
    PyObject *function; /* owned, may be NULL: for the last globals, when there are no cells */
} Resume;

typedef struct {
    PyObject_VAR_HEAD
    Resume *resume;     /* owned */
    PyObject *items[1]; /* owned: cells, then arguments */
} Tail;

extern PyTypeObject dj_graph_call_type, dj_resume_type, dj_tail_type;

/* ---- bind.c, dispatcher.c, dispatch.c: calls ---- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyFunctionObject *func; /* owned */
    PyObject *options;      /* owned */
    PyObject *on_miss;      /* owned */
    PyCodeObject *code;     /* owned: whose entries this object accounts for */
    Entry *last;            /* owned, may be NULL: entry of `function` */
    PyObject *function;     /* owned, may be NULL: its replacement with the closure of func */
    PyObject *dict;         /* owned, may be NULL */
    PyObject *weakrefs;
} Dispatcher;

/* What this thread is doing. */
typedef struct {
    Dispatcher *context;   /* borrowed from the C stack: serves frames entered now; NULL: the evaluator delegates */
    PyCodeObject *pass;    /* borrowed: run the next frame of this code as it is */
    Frame *delegated;      /* the frame being handed to another evaluator */
    GraphCall *failed;     /* owned, may be NULL: a pure graph that failed in this turn */
    PyObject *failure;     /* owned, may be NULL: with this exception */
    char *stack_low;       /* where the C stack ends; NULL: not asked yet */
    size_t stack_reserve;  /* so near to it compiled calls raise RecursionError */
    size_t stack_half;     /* so near to it the evaluator stops adding C frames */
    uint64_t *dispatch_keys; /* this thread's c10::impl::raw_local_dispatch_key_set, once it was asked for */
    int off;               /* `off()` contexts entered */
    int compiling;         /* inside on_miss */
    int calls;             /* Dispatcher calls on the stack */
    int turns;             /* dispatches on the stack */
    int hooks;             /* of them, how many want the evaluator installed */
} Thread;

extern _Thread_local Thread dj_thread;
extern PyTypeObject dj_dispatcher_type;

/* One function to run. In the first turn either `frame` or `call` says how to run it natively. */
typedef struct {
    PyFunctionObject *func;   /* owned */
    PyObject *const *slots;   /* borrowed from frame, tail or caller */
    Py_ssize_t nslots;
    Tail *tail;               /* owned, may be NULL */
    Frame *frame;             /* may be NULL; ours to drop unless it was run */
    PyObject *const *call;    /* may be NULL: the arguments as written */
    size_t nargsf;
    PyObject *kwnames;
    Dispatcher *dispatcher;   /* borrowed, may be NULL: of the first turn */
} Turn;

PyObject *dj_dispatch(Thread *thread, Dispatcher *context, Turn *turn);

Py_ssize_t dj_slot_count(PyCodeObject *code);
/* True: slots are filled with new references. False: no exception is set; the original will raise the right one. */
bool dj_bind(PyFunctionObject *func, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **slots);
void dj_note_stack(Thread *thread);
PyObject *dj_exchange(PyObject **setting, PyObject *fn); /* store a function or None; returns what was there */
extern PyMethodDef dj_dispatch_methods[], dj_dispatcher_methods[];

/* ---- hook.c: the PEP 523 evaluator ---- */

void dj_hook_init(void);
bool dj_may_repeat(PyObject *graph, PyObject *exception); /* the observer does not mind that a failed graph runs again */
void dj_hook_enter(Thread *thread);
void dj_hook_leave(Thread *thread);
/* For a while this thread runs code of which nothing is to be captured: until then it may run at full speed. */
typedef struct {
    Dispatcher *context;
    int hooks;
} Paused;
Paused dj_pause(Thread *thread);
void dj_go_on(Thread *thread, Paused paused);
PyObject *dj_delegate(Thread *thread, PyThreadState *tstate, Frame *frame, int throwflag);
extern PyTypeObject dj_off_type;
extern bool dj_bypassed; /* hook.c: nothing is dispatched */
extern PyMethodDef dj_hook_methods[];

#pragma GCC visibility pop

/* Whether the C stack ends less than `margin` below `here`. A library may have moved us to a stack of its own, of which
   nothing is known: then it does not. */
static inline bool
dj_stack_short(const Thread *thread, const void *here, size_t margin)
{
    return (uintptr_t)here - (uintptr_t)thread->stack_low < margin;
}

static inline bool
dj_is_tail(PyObject *obj)
{
    return Py_IS_TYPE(obj, &dj_tail_type);
}

#endif
