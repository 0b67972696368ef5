/* The only place that asks which CPython this is.

   Each py3xx.h defines the same names, and cites the CPython source it mirrors:

   dj_frame_code, dj_frame_func, dj_frame_slots   what a frame runs, for whom, and its arguments
   dj_frame_of_generator                          the frame lives in a generator
   dj_frame_drop                                  release the arguments of a frame that will not run
   dj_tracing                                     a tracer, profiler or monitoring tool watches this code
   dj_dict_version, dj_type_version               stamps: unchanged means the contents are unchanged; 0: no stamp
   dj_inline_values, dj_instance_dict             attributes of an instance, without making its dict
   dj_code_extra_index, dj_code_extra_get, dj_code_extra_set
   dj_exception_take, dj_exception_put            the exception being raised, as one object
   dj_recursion_short                             CPython's own count of C recursion is nearly used up
*/
#ifndef DYNAJIT_COMPAT_H
#define DYNAJIT_COMPAT_H

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE_MODULE /* as the extension modules of the standard library do that need internal headers */
#include <Python.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef Py_GIL_DISABLED
#error "dynajit.frame keeps its state under the GIL; free-threaded builds are not supported"
#endif

/* CPython's internal headers are not written for -Wextra. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* ma_version_tag, from 3.12 on */
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#include "py311.h"
#elif PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
#include "py312.h"
#elif PY_VERSION_HEX >= 0x030D0000 && PY_VERSION_HEX < 0x030E0000
#include "py313.h"
#else
#error "dynajit.frame supports CPython 3.11, 3.12 and 3.13"
#endif
#pragma GCC diagnostic pop

#endif
