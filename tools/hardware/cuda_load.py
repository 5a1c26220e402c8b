"""A process that keeps a GPU busy, by the CUDA driver alone: `cuda_load.py SECONDS MIB`.

It allocates memory and runs a kernel that spins on all multiprocessors, then prints `running`. With
`fault` as the third argument, the kernel writes to an address that does not exist (XID 31).
CUDA_VISIBLE_DEVICES selects the device or MIG instance. Exits with 3 where there is no CUDA driver.
"""

import ctypes
import sys
import time

_KERNELS = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 rounds, .param .u64 address) {
  .reg .pred %p, %q;
  .reg .b64 %n, %a;
  .reg .b32 %x;
  ld.param.u64 %n, [rounds];
  ld.param.u64 %a, [address];
  mov.u32 %x, %tid.x;
loop:
  mad.lo.u32 %x, %x, 1664525, 1013904223;
  sub.u64 %n, %n, 1;
  setp.ne.u64 %p, %n, 0;
  @%p bra loop;
  setp.eq.u32 %q, %x, 7;
  @%q st.global.u32 [%a], %x;
  ret;
}
.visible .entry fault(.param .u64 rounds, .param .u64 address) {
  .reg .b64 %a;
  ld.param.u64 %a, [address];
  st.global.u32 [%a], 7;
  ret;
}
"""
"""What `spin` computes is stored in rare cases, so that the compiler cannot leave it out."""
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
    call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_KERNELS))
    name = b"fault" if faults else b"spin"
    call("cuModuleGetFunction", ctypes.byref(kernel), module, ctypes.c_char_p(name))
    values = ctypes.c_uint64(_ROUNDS), ctypes.c_uint64(8) if faults else memory
    pointers = [ctypes.cast(ctypes.byref(each), ctypes.c_void_p) for each in values]
    parameters = (ctypes.c_void_p * len(pointers))(*pointers)
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
