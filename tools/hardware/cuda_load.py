"""A process that keeps a GPU busy, by the CUDA driver alone: `cuda_load.py SECONDS MIB`.

It allocates memory and runs a kernel that spins on all multiprocessors, then prints `running`. With
`fault` as the third argument, the kernel writes to an address that does not exist (XID 31).
CUDA_VISIBLE_DEVICES selects the device or MIG instance. Exits with 3 where there is no CUDA driver.
"""

import ctypes
import sys
import time

_SPIN = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 rounds) {
  .reg .pred %p;
  .reg .b64 %n;
  ld.param.u64 %n, [rounds];
loop:
  sub.u64 %n, %n, 1;
  setp.ne.u64 %p, %n, 0;
  @%p bra loop;
  ret;
}
.visible .entry fault(.param .u64 address) {
  .reg .b64 %a;
  ld.param.u64 %a, [address];
  st.global.u32 [%a], 7;
  ret;
}
"""
_NO_CUDA = 3
_BLOCKS, _THREADS = 1056, 256
_ROUNDS = 2_000_000


class CudaFailed(Exception):
    """A call of the CUDA driver failed."""


def main(seconds: float, mebibytes: int, faults: bool) -> int:
    """Keep the device busy for so long."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        print(f"no CUDA driver: {error}", flush=True)
        return _NO_CUDA

    def call(name: str, *arguments: object) -> None:
        code = getattr(cuda, name)(*arguments)
        if code:
            raise CudaFailed(f"{name} failed with CUDA error {code}")

    device, context = ctypes.c_int(), ctypes.c_void_p()
    memory, module, kernel = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(mebibytes << 20))
    call("cuMemsetD32_v2", memory, ctypes.c_uint(1), ctypes.c_size_t(mebibytes << 18))
    call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_SPIN))
    name = b"fault" if faults else b"spin"
    call("cuModuleGetFunction", ctypes.byref(kernel), module, ctypes.c_char_p(name))
    value = ctypes.c_uint64(8 if faults else _ROUNDS)
    parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(value), ctypes.c_void_p))
    print("running", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        call("cuLaunchKernel", kernel, _BLOCKS, 1, 1, _THREADS, 1, 1, 0, None, parameters, None)
        call("cuCtxSynchronize")
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] == ["fault"]))
    except CudaFailed as failure:
        print(failure, flush=True)
        sys.exit(4)
