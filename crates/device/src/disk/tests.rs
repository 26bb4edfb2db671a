//! Disks under requests, kills, cuts and full host disks.
