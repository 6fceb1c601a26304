"""File systems of the network are told from local ones by the table of mounts."""

from pathlib import Path

import pytest

from capbench.paths import network_file_system

MOUNTS = r"""
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /home rw - {kind} server:/home rw
31 30 0:41 / /home/of\040all/fast rw shared:1 - xfs /dev/nvme0n1 rw
32 22 0:42 / /twice rw - nfs4 server:/old rw
33 22 0:43 / /twice rw - tmpfs tmpfs rw
""".lstrip()


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "lustre", "gpfs", "beegfs", "ceph", "fuse.s3fs"]
)
def test_file_systems_of_the_network_are_known(mounts: Path, kind: str):
    mounts.write_text(MOUNTS.replace("{kind}", kind))
    assert network_file_system(Path("/home/me/.cache/store.sqlite")) == kind
    assert network_file_system(Path("/home")) == kind
    assert network_file_system(Path("/home/of all/fast/store.sqlite")) is None
    assert network_file_system(Path("/homeless/store.sqlite")) is None
    assert network_file_system(Path("/twice/store.sqlite")) is None


def test_where_there_is_no_table_of_mounts_nothing_is_known(mounts: Path):
    assert network_file_system(Path("/home/me/store.sqlite")) is None
    mounts.touch()
    assert network_file_system(Path("/home/me/store.sqlite")) is None
