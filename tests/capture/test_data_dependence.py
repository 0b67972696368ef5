"""Results that only the data knows: kept in the graph until something has to look at them."""

import torch
from programs import T, program


@program(T(5))
def the_selection_is_returned(x):
    return (x > 0).nonzero()


@program(T(5), graphs=2, breaks="DJ-D003")
def the_selection_is_used(x):
    where = (x > 0).nonzero()
    return x[where] * 2 + 1


@program(T(5))
def a_number_is_returned(x):
    return x * 2, x.sum().item()


@program(T(5))
def numbers_are_collected(x):
    seen = []
    for i in range(3):
        x = x * i
        seen.append(x.sum().item())
    return seen, x


@program(T(5))
def a_number_is_used(x):
    y = x * 2
    n = y.sum().item()
    z = y + 1
    return z * n


@program(T(5), graphs=2, breaks="DJ-D002")
def a_number_decides(x):
    if bool((x > 0).any()):
        return x + 1
    return x - 1


@program(T(5))
def a_mask_selects(x):
    return x[x > 0]


@program(T(5), graphs=2, breaks="DJ-D003")
def what_a_mask_selects_is_a_method_s_owner(x):
    return x[x > 0].sum()


@program(T(5), T(5, seed=1, grad=True))
def a_mask_writes(x, y):
    z = x.clone()
    z[z > 0] = 1.0
    z[z < 0] = y[:1]
    return z * 2


@program(T(5), T(2))
def a_mask_writes_what_does_not_fit(x, y):
    z = x.clone()
    z[z > 100] = y
    return z


@program(make=lambda: (T(5, grad=True),), graphs=1, breaks="DJ-D004")
def a_mask_does_not_write_to_a_leaf(x):
    x[x > 0] = 1.0
    return x


@program(T(5), T(4))
def a_mask_that_does_not_fit(x, y):
    return x[y > 0]


@program(T(5))
def float_and_int(x):
    return float(x.sum()), int(x.sum()), x.tolist(), torch.equal(x, x + 1), torch.allclose(x, x)


@program(T(5), graphs=0, breaks="DJ-D004")
def item_of_several_elements(x):
    return x.item()


@program(T(5))
def its_type_is_known(x):
    n = x.sum().item()
    return isinstance(n, float), isinstance(x[x > 0], torch.Tensor), n is None


def helper(x, picked):
    return x.sum() + picked.sum()


@program(T(5), graphs=2, breaks="DJ-D003")
def a_function_that_is_called_uses_it(x):
    picked = x[x > 0]
    return helper(x * 2, picked)


@program(T(5))
def a_sparse_tensor_is_returned(x):
    return (x * 2).to_sparse()


@program(T(6))
def complex_numbers(x):
    spectrum = torch.fft.fft(x)
    z = torch.complex(x, x + 1) * spectrum
    return z, z.abs(), z.real, z.imag, z.conj().resolve_conj(), spectrum.dtype


@program(T(6, dtype=torch.complex64))
def complex_arguments(z):
    return z * 2j + 1, torch.view_as_real(z), z.is_complex()


@program(make=lambda: (T(6, dtype=torch.complex64).conj(),), graphs=0, breaks="DJ-D007")
def a_lazy_conjugate(z):
    return z * 2
