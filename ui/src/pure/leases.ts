// Leases that workers hold.

import type { HeldLease } from "../api/types";
import { between } from "./format";

/** The lease that ends first, and what was left of it at *at*: when it was read, since its heartbeats are not seen later. */
export function shortest(leases: HeldLease[], at: number): { lease: HeldLease; left: number } | null {
  const held = leases.filter((lease) => !lease.is_expired);
  if (!held.length) return null;
  const lease = held.reduce((first, each) => (each.expires_at < first.expires_at ? each : first));
  return { lease, left: Math.max(0, -between(lease.expires_at, at)) };
}
