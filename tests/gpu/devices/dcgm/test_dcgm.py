"""Telemetry of a DCGM exporter: names, units and labels; MIG; and answers that are of no use."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from kilonova.gpu.devices.dcgm import DcgmExporter, DcgmTelemetry
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import Activity, DeviceTelemetry
from tests.gpu.devices.machines import simulate
from tests.gpu.exporter.readings import load

MIB = 1 << 20
LABELS = (
    'gpu="0",UUID="GPU-a",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H100"'
)
DEFAULT_COUNTERS = f"""\
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{{{LABELS}}} 1980
DCGM_FI_DEV_MEM_CLOCK{{{LABELS}}} 2619
DCGM_FI_DEV_MEMORY_TEMP{{{LABELS}}} 61
DCGM_FI_DEV_GPU_TEMP{{{LABELS}}} 55
DCGM_FI_DEV_POWER_USAGE{{{LABELS}}} 512.75
# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{LABELS}}} 9876543210123
DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{LABELS}}} 3
DCGM_FI_DEV_GPU_UTIL{{{LABELS}}} 87
DCGM_FI_DEV_MEM_COPY_UTIL{{{LABELS}}} 40
DCGM_FI_DEV_ENC_UTIL{{{LABELS}}} 0
DCGM_FI_DEV_DEC_UTIL{{{LABELS}}} 12
DCGM_FI_DEV_XID_ERRORS{{{LABELS}}} 31
DCGM_FI_DEV_FB_FREE{{{LABELS}}} 70000
DCGM_FI_DEV_FB_USED{{{LABELS}}} 11000
DCGM_FI_DEV_FB_RESERVED{{{LABELS}}} 559
DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{{{LABELS}}} 0
DCGM_FI_DEV_VGPU_LICENSE_STATUS{{{LABELS}}} 0
DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{{{LABELS}}} 1
DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS{{{LABELS}}} 2
DCGM_FI_DEV_ROW_REMAP_FAILURE{{{LABELS}}} 0
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{LABELS}}} 0.9
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{LABELS}}} 0.33
DCGM_FI_PROF_DRAM_ACTIVE{{{LABELS}}} 0.25
DCGM_FI_PROF_PCIE_TX_BYTES{{{LABELS}}} 5e9
DCGM_FI_PROF_PCIE_RX_BYTES{{{LABELS}}} 6e9
go_goroutines 12
"""


def read(text: str, **more: object) -> list[DeviceTelemetry]:
    exporter = DcgmExporter("http://gpu-1:9400/metrics", fetch=lambda _u, _t: text, **more)  # type: ignore[arg-type]
    return list(exporter.read_telemetry())


def test_default_counters_are_read_with_their_units() -> None:
    assert read(DEFAULT_COUNTERS) == [
        DeviceTelemetry(
            uuid="GPU-a",
            activity=Activity(
                gpu=0.87, memory_copy=0.4, tensor=0.33, dram=0.25, encoder=0.0, decoder=0.12
            ),
            memory_used_bytes=11000 * MIB,
            memory_total_bytes=81559 * MIB,
            memory_reserved_bytes=559 * MIB,
            power_watts=512.75,
            energy_millijoules=9876543210123,
            temperature_celsius=55,
            memory_temperature_celsius=61,
            sm_clock_mhz=1980,
            memory_clock_mhz=2619,
            pcie_sent_bytes=5_000_000_000,
            pcie_received_bytes=6_000_000_000,
            pcie_replays=3,
            rows_remapped_corrected=2,
            rows_remapped_uncorrected=1,
            row_remap_failed=False,
            last_xid=31,
        )
    ]


def test_further_counters_are_read() -> None:
    text = "\n".join(
        f'{name}{{UUID="GPU-a"}} {value}'
        for name, value in (
            ("DCGM_FI_PROF_SM_ACTIVE", 0.7),
            ("DCGM_FI_PROF_SM_OCCUPANCY", 0.4),
            ("DCGM_FI_PROF_NVLINK_TX_BYTES", 1e9),
            ("DCGM_FI_PROF_NVLINK_RX_BYTES", 2e9),
            ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 5),
            ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1),
            ("DCGM_FI_DEV_ROW_REMAP_PENDING", 1),
            ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 0x48),
        )
    )
    (reading,) = read(text)
    assert (reading.activity.sm_active, reading.activity.sm_occupancy) == (0.7, 0.4)
    assert reading.nvlink_bytes == 3_000_000_000
    assert (reading.ecc_corrected, reading.ecc_uncorrected) == (5, 1)
    assert reading.row_remap_pending
    assert reading.throttle_reasons == ("HwSlowdown", "HwThermalSlowdown")


@pytest.mark.parametrize("hostname", ["Hostname", "hostname"])
def test_labels_of_both_generations_are_accepted(hostname: str) -> None:
    labels = f'UUID="GPU-a",{hostname}="gpu-1",pod="train-0",namespace="ml",container="main"'
    (reading,) = read(f"DCGM_FI_DEV_GPU_TEMP{{{labels}}} 44")
    assert (reading.uuid, reading.temperature_celsius) == ("GPU-a", 44)


def mig(name: str, value: float, instance: int, profile: str = "1g.10gb") -> str:
    labels = f'UUID="GPU-a",GPU_I_PROFILE="{profile}",GPU_I_ID="{instance}"'
    return f"{name}{{{labels}}} {value}"


def test_instances_have_their_own_activity_and_memory() -> None:
    lines = [
        mig("DCGM_FI_DEV_POWER_USAGE", 300, 1, "3g.40gb"),
        mig("DCGM_FI_DEV_POWER_USAGE", 300, 9),
        mig("DCGM_FI_DEV_FB_USED", 1000, 1, "3g.40gb"),
        mig("DCGM_FI_DEV_FB_FREE", 39000, 1, "3g.40gb"),
        mig("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5, 1, "3g.40gb"),
        mig("DCGM_FI_PROF_DRAM_ACTIVE", 0.25, 1, "3g.40gb"),
        mig("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.0, 9),
        mig("DCGM_FI_DEV_FB_USED", 20, 9),
    ]
    known = {("GPU-a", 1): "MIG-one", ("GPU-a", 9): "MIG-nine"}
    (reading,) = read("\n".join(lines), find_instance=lambda gpu, gi: known[gpu, gi])
    assert (reading.power_watts, reading.activity, reading.memory_used_bytes) == (
        300,
        Activity(),
        None,
    )
    large, small = reading.instances
    assert (large.uuid, large.gpu_instance) == ("MIG-one", 1)
    assert large.activity == Activity(gpu=0.5, dram=0.25)
    assert (large.memory_used_bytes, large.memory_total_bytes) == (1000 * MIB, 40000 * MIB)
    assert (small.uuid, small.activity.gpu, small.memory_total_bytes) == ("MIG-nine", 1.0, None)


def test_values_of_the_device_win_over_those_repeated_for_instances() -> None:
    lines = [
        mig("DCGM_FI_DEV_GPU_TEMP", 40, 1),
        'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-a",GPU_I_PROFILE="",GPU_I_ID=""} 41',
    ]
    for order in (lines, lines[::-1]):
        assert read("\n".join(order))[0].temperature_celsius == 41


@pytest.mark.parametrize("blank", ["2147483632", "9223372036854775792", "1.4e14", "NaN", "+Inf"])
def test_fields_that_dcgm_cannot_read_are_unknown(blank: str) -> None:
    (reading,) = read(
        f'DCGM_FI_DEV_GPU_TEMP{{UUID="GPU-a"}} {blank}\nDCGM_FI_DEV_SM_CLOCK{{UUID="GPU-a"}} 345'
    )
    assert (reading.temperature_celsius, reading.sm_clock_mhz) == (None, 345)


def test_labels_with_escapes_are_read() -> None:
    (reading,) = read('DCGM_FI_DEV_SM_CLOCK{UUID="GPU-a",pod="a\\"b\\\\c\\n}"} 345')
    assert reading.sm_clock_mhz == 345


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# only a comment\n", "go_goroutines 12\n", "DCGM_FI_DEV_SM_CLOCK 3\n"]
)
def test_answer_without_devices_is_empty(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "<html>502 Bad Gateway</html>",
        'DCGM_FI_DEV_SM_CLOCK{UUID="GPU-a"} many',
        'DCGM_X{UUID="a} 3',
    ],
)
def test_other_answers_are_an_error(text: str) -> None:
    with pytest.raises(GpuError, match="http://gpu-1:9400/metrics: not in the exposition") as error:
        read(text)
    assert error.value.kind is GpuErrorKind.UNKNOWN


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (TimeoutError(), GpuErrorKind.TIMEOUT, "no answer within 5 s"),
        (ConnectionRefusedError(111, "Connection refused"), GpuErrorKind.UNKNOWN, "refused"),
    ],
)
def test_exporter_that_does_not_answer(raised: Exception, kind: GpuErrorKind, message: str) -> None:
    def fetch(_url: str, _timeout: float) -> str:
        raise raised

    with pytest.raises(GpuError, match=message) as error:
        DcgmExporter("http://gpu-1:9400/metrics", fetch=fetch).read_telemetry()
    assert error.value.kind is kind


def test_url_needs_its_scheme() -> None:
    with pytest.raises(ValueError, match="begins with http"):
        DcgmExporter("file:///etc/passwd")


@contextmanager
def served(status: int, body: str) -> Generator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_exporter_is_scraped_over_http() -> None:
    with served(200, DEFAULT_COUNTERS) as url:
        assert DcgmExporter(url).read_telemetry()[0].power_watts == 512.75
    with pytest.raises(GpuError, match=url):
        DcgmExporter(url).read_telemetry()


def test_failure_of_the_exporter_names_its_status() -> None:
    with served(503, "") as url, pytest.raises(GpuError, match="503"):
        DcgmExporter(url).read_telemetry()


def test_agent_has_dcgms_measurements_and_the_backends_processes() -> None:
    backend = simulate("h100:2")
    first, second = (each.uuid for each in backend.read_inventory().devices)
    backend.set_load(first, load(7, 0.25, 10))
    text = DEFAULT_COUNTERS.replace("GPU-a", first)
    source = DcgmTelemetry("http://gpu-1:9400/metrics", backend, fetch=lambda _u, _t: text)

    by_dcgm, by_backend = source.read_telemetry()

    assert by_dcgm.uuid == first
    assert by_dcgm.power_watts == 512.75
    assert [each.pid for each in by_dcgm.processes] == [7]
    # DCGM's exporter says nothing of the other one.
    assert by_backend == next(x for x in backend.read_telemetry() if x.uuid == second)


def test_instances_of_dcgm_have_the_uuids_of_the_driver() -> None:
    backend = simulate("h100:1")
    uuid = backend.read_inventory().devices[0].uuid
    backend.set_mig_mode(uuid, True)
    instance = backend.create_instance(uuid, "3g.40gb", 4)
    labels = f'UUID="{uuid}",GPU_I_PROFILE="3g.40gb",GPU_I_ID="{instance.gpu_instance}"'
    text = f"DCGM_FI_PROF_SM_ACTIVE{{{labels}}} 0.5\n"
    source = DcgmTelemetry("http://gpu-1:9400/metrics", backend, fetch=lambda _u, _t: text)
    (device,) = source.read_telemetry()
    assert [(each.uuid, each.activity.sm_active) for each in device.instances] == [
        (instance.uuid, 0.5)
    ]


def test_backend_measures_while_the_exporter_does_not_answer() -> None:
    def fetch(url: str, timeout: float) -> str:
        raise ConnectionRefusedError("refused")

    backend = simulate("h100:2")
    source = DcgmTelemetry("http://gpu-1:9400/metrics", backend, fetch=fetch)
    assert list(source.read_telemetry()) == list(backend.read_telemetry())
