// Made from the OpenAPI document by `make ui-types`; do not edit.

export type Accepted = { id: string; type: string; state: State; duplicate?: boolean; differs?: (string)[] | null; run_at?: string; };

export type Ack = { id: string; token: string; result?: unknown; result_base64?: string; };

export type Action = { id: string; at?: string | null; principal_id: string | null; principal: string; action: string; target: string; detail?: Record<string, unknown>; request_id?: string | null; status?: number | null; };

export type ActionPage = { actions: (Action)[]; next: string | null; };

export type AppLimit = { max_running: number | null; };

export type Attempt = { id: string; job_id: string; previous_id: string | null; number: number; lease_version: number; worker: string; outcome: AttemptOutcome; started_at: string; ended_at?: string | null; failure?: Failure | null; };

export type AttemptOutcome = "cancelled" | "failed" | "released" | "running" | "snoozed" | "succeeded" | "unreadable";

export type Attempts = { attempts: (Attempt)[]; };

export type Attention = { at: string; items: (Item)[]; };

export type BackoffView = { strategy: string; initial_delay: number; max_delay: number; multiplier: number; jitter: number; delays: (number)[]; function: string | null; };

export type Batch = { jobs: (Submission)[]; atomic?: boolean; };

export type BatchReply = { jobs: (Accepted | Refused)[]; };

export type Beat = { id: string; token: string; lease_ttl?: number | string | null; };

export type BulkEdits = { priority?: number | "critical" | "high" | "normal" | "low" | "bulk" | null; tags?: Record<string, string> | null; run_at?: string | null; };

export type Cancelled = { count: number; dry_run?: boolean; };

export type Category = "cancelled" | "permanent" | "system" | "temporary" | "timeout";

export type Change = { state: State; at: string; reason: string; };

export type Check = { code: string; is_met: boolean; text: string; note?: string; };

export type Checkpoint = { id: string; token: string; checkpoint?: unknown; checkpoint_base64?: string; };

export type ClaimBody = { queues?: Record<string, number> | (string)[] | null; types?: (string)[] | null; limit?: number; lease_ttl?: number | string; worker?: string; timeout?: number | string; };

export type ClaimReply = { jobs: (ClaimedView)[]; wait: number; };

export type ClaimedView = { id: string; type: string; queue: string; priority: number; attempt: number; max_attempts: number; attempt_id: string; previous_attempt_id: string | null; timeout: number; lease_ttl: number; lease: LeaseView; policy: PolicyView; key: string | null; tags: Record<string, string>; correlation_id: string | null; flow: string | null; dependencies: (DependencyView)[]; payload?: unknown; payload_base64?: string; payload_encrypted?: string; checkpoint?: unknown; checkpoint_base64?: string; checkpoint_encrypted?: string; };

export type Completions = { values: (string)[]; };

export type Count = { count: number; };

export type CreatedToken = { id: string; name: string; roles: (Role)[]; queues: (string)[] | null; rate: number | null; created_at: string; expires_at: string | null; revoked_at: string | null; token: string; };

export type CronRun = { job_id: string; state: State; tick: string | null; created_at: string; started_at: string | null; ended_at: string | null; };

export type CronRuns = { runs: (CronRun)[]; };

export type CronView = { name: string; expression: string; tz: string; description: string; type: string | null; queue: string | null; missed: string; catch_up: number; is_paused: boolean; last_tick: string | null; next_tick: string | null; declared_at: string | null; changed_at: string | null; };

export type Crons = { crons: (CronView)[]; };

export type DeadLetter = { job_id: string; type: string; queue: string; state: State; attempts: number; failure: Failure; completed_at: string; };

export type DeadLetterPage = { dead_letters: (DeadLetter)[]; next: string | null; };

export type DependencyView = { id: string; type: string; state: State; node: string | null; result?: unknown; result_base64?: string; result_encrypted?: string; };

export type DiscardAll = { type?: string | null; queue?: string | null; since?: string | null; until?: string | null; group?: string | null; dry_run?: boolean; expected?: number | null; };

export type Discarded = { count: number; dry_run?: boolean; };

export type EditBody = { priority?: number | "critical" | "high" | "normal" | "low" | "bulk" | null; tags?: Record<string, string> | null; run_at?: string | null; payload?: unknown; payload_base64?: string; correlation_id?: string | null; callback_url?: string | null; type?: string | null; queue?: string | null; };

export type EditSelection = { state?: ("cancelled" | "completed" | "dead_letter" | "delayed" | "failed" | "in_flight" | "pending" | "ready" | "retrying" | "running" | "scheduled" | "succeeded")[]; type?: string | null; queue?: string | null; correlation_id?: string | null; flow?: string | null; id_prefix?: string | null; created_after?: string | null; created_before?: string | null; key?: string | null; error?: string | null; where?: (string)[]; tags?: Record<string, string>; priorities?: (number | "critical" | "high" | "normal" | "low" | "bulk")[]; ids?: (string)[] | null; dry_run?: boolean; expected?: number | null; edit: BulkEdits; };

export type EditedJobs = { count: number; refused?: Record<string, number>; dry_run?: boolean; };

export type EventBody = { payload?: Record<string, unknown>; key?: string | null; on_duplicate?: "reject" | "return"; };

export type EventJob = { id: string; type: string; duplicate: boolean; };

export type EventPage = { events: (EventView)[]; next: string | null; };

export type EventView = { id: string; name: string; sent_at: string; key: string | null; jobs: (EventJob)[]; payload?: unknown; payload_base64?: string; payload_encrypted?: string; };

export type ExistingJob = { id: string; type: string; queue: string; priority: number; state: State; attempt: number; max_attempts: number; created_at: string; updated_at: string; run_at: string; expires_at: string; scheduled_at: string | null; started_at: string | null; completed_at: string | null; lease: Ownership | null; lease_version: number; failure: Failure | null; progress: Progress | null; key: string | null; tags: Record<string, string>; correlation_id: string | null; replay_of: string | null; callback_url: string | null; flow: string | null; node: string | null; concurrency_key: string | null; withheld?: true; duplicate?: true; differs?: (string)[] | null; };

export type Failure = { category: Category; message: string; code?: string | null; exception?: string | null; traceback?: string | null; failed_dependency?: string | null; };

export type Figures = { name: string; counts: Record<string, number>; ended: Record<string, number>; ended_rate: number; wait: Percentiles | null; run: Percentiles | null; };

export type Finding = { level: string; code: string; text: string; count?: number; };

export type Findings = { at: string; findings: (Finding)[]; };

export type FlowBody = { nodes: Record<string, Submission>; };

export type FlowEdge = { from: string; to: string; mode: Mode; };

export type FlowPage = { flows: (FlowSummary)[]; next: string | null; };

export type FlowSummary = { id: string; correlation_id?: string | null; type: string; counts: Record<string, number>; created_at: string; started_at?: string | null; ended_at?: string | null; is_live: boolean; is_complete?: boolean; };

export type FlowView = { id: string; jobs: Record<string, JobSummary>; edges?: (FlowEdge)[]; };

export type Group = { id: string; type: string; exception: string | null; frame: string | null; message: string; count: number; first_at: string; last_at: string; is_rising: boolean; trend: (number)[]; queues: Record<string, number>; sample: (string)[]; };

export type Groups = { at: string; is_complete: boolean; groups: (Group)[]; };

export type Health = { status: string; };

export type HeldLease = { job_id: string; type: string; queue: string; attempt: number; worker: string; fence: number; started_at: string | null; expires_at: string; is_expired: boolean; };

export type HeldLeases = { leases: (HeldLease)[]; is_complete: boolean; };

export type History = { history: (Change)[]; };

export type Item = { code: string; level: "now" | "soon"; since: string | null; count: number; target: Target; text: string; };

export type Items_Ack_ = { items: (Ack)[]; };

export type Items_Beat_ = { items: (Beat)[]; };

export type Items_Checkpoint_ = { items: (Checkpoint)[]; };

export type Items_Nack_ = { items: (Nack)[]; };

export type Items_ProgressBody_ = { items: (ProgressBody)[]; };

export type Items_Release_ = { items: (Release)[]; };

export type JobCount = { count: number; at_least?: boolean; looked?: number | null; unreadable?: number; };

export type JobPage = { jobs: (ListedJob)[]; next: string | null; looked?: number | null; unreadable?: number; };

export type JobSummary = { id: string; type: string; queue: string; priority: number; state: State; attempt: number; max_attempts: number; created_at: string; updated_at: string; run_at: string; expires_at: string; scheduled_at: string | null; started_at: string | null; completed_at: string | null; lease: Ownership | null; lease_version: number; failure: Failure | null; progress: Progress | null; key: string | null; tags: Record<string, string>; correlation_id: string | null; replay_of: string | null; callback_url: string | null; flow: string | null; node: string | null; concurrency_key: string | null; withheld?: true; };

export type JobView = { id: string; type: string; queue: string; priority: number; state: State; attempt: number; max_attempts: number; created_at: string; updated_at: string; run_at: string; expires_at: string; scheduled_at: string | null; started_at: string | null; completed_at: string | null; lease: Ownership | null; lease_version: number; failure: Failure | null; progress: Progress | null; key: string | null; tags: Record<string, string>; correlation_id: string | null; replay_of: string | null; callback_url: string | null; flow: string | null; node: string | null; concurrency_key: string | null; withheld?: true; policy: PolicyView; payload?: unknown; payload_base64?: string; payload_encrypted?: string; result?: unknown; result_base64?: string; result_encrypted?: string; checkpoint?: unknown; checkpoint_base64?: string; checkpoint_encrypted?: string; };

export type LeaseReplies = { items: (LeaseReply)[]; };

export type LeaseReply = { id: string; status: number; state: State | null; expires_at?: string; repeated?: boolean; code?: string; detail?: string; };

export type LeaseView = { token: string; version: number; expires_at: string; };

export type LimitBody = { max_running: number | null; };

export type Line = { metric: SeriesMetric; name: string | null; values: (number | null)[]; };

export type ListedJob = { id: string; type: string; queue: string; priority: number; state: State; attempt: number; max_attempts: number; created_at: string; updated_at: string; run_at: string; expires_at: string; scheduled_at: string | null; started_at: string | null; completed_at: string | null; lease: Ownership | null; lease_version: number; failure: Failure | null; progress: Progress | null; key: string | null; tags: Record<string, string>; correlation_id: string | null; replay_of: string | null; callback_url: string | null; flow: string | null; node: string | null; concurrency_key: string | null; withheld?: true; preview?: string; };

export type Me = { name: string; token_id: string | null; by: "local" | "session" | "token"; roles: (Role)[]; queues: (string)[] | null; expires_at: string | null; app: string; version: string; store: StoreView; at: string; };

export type Mode = "all" | "any" | "ended";

export type Nack = { id: string; token: string; category?: "permanent" | "system" | "temporary" | "timeout" | "unreadable"; message?: string; code?: string | null; exception?: string | null; traceback?: string | null; retry_after?: number | string | null; };

export type NewReplay = { type?: string | null; queue?: string | null; since?: string | null; until?: string | null; group?: string | null; id?: string | null; patch?: Record<string, unknown>; sample?: number | null; rate?: number; stop_above?: number | null; stop_after?: number; stop_failures?: number | null; expected?: number | null; };

export type NewTokenBody = { name: string; roles: ("submit" | "read" | "work" | "operate" | "admin")[]; queues?: (string)[] | null; expires?: number | string | null; rate?: number | null; };

export type Ownership = { worker: string; version: number; expires_at: string; expired: boolean; };

export type PauseView = { kind: "cron" | "queue" | "type"; name: string; by?: string | null; at?: string | null; };

export type Pauses = { pauses: (PauseView)[]; };

export type Percentiles = { p50: number; p90: number; p99: number; };

export type PolicyView = { max_attempts: number; backoff: BackoffView; on_timeout: boolean; on_system: boolean; timeout: number; lifetime: number; lease_ttl: number | null; max_running_per_key: number | null; };

export type Problem = { type: string; title: string; status: number; code: string; detail: string; request_id: string; job_id?: string; state?: string; existing?: string; differs?: (string)[]; size?: number; limit?: number; retry_after?: number; };

export type Progress = { at?: string; fraction: number; message: string; };

export type ProgressBody = { id: string; token: string; fraction: number; message?: string; };

export type QueueView = { name: string; is_paused?: boolean; max_running?: number | null; counts?: Record<string, number>; claimable?: Record<string, number>; oldest_at?: string | null; };

export type Queues = { queues: (QueueView)[]; };

export type Rate = { count: number; window: number; };

export type Reason = { code: string; text: string; };

export type Reasons = { reasons: (Reason)[]; checks?: (Check)[]; };

export type Refusal = { at: string; operation: string; fence_held: number | null; fence_present: number; worker: string | null; };

export type Refused = { code: string; detail: string; existing?: string; differs?: (string)[] | null; };

export type RefusedWrites = { refusals: (Refusal)[]; };

export type Release = { id: string; token: string; delay?: number | string | null; };

export type ReplayAll = { type?: string | null; queue?: string | null; since?: string | null; until?: string | null; group?: string | null; limit?: number | null; ids?: (string)[] | null; patch?: Record<string, unknown>; dry_run?: boolean; expected?: number | null; };

export type ReplayState = "done" | "held" | "running" | "stopped" | "stopped_by_rule";

export type ReplayView = { id: string; state: ReplayState; started_by: string; started_at: string; ended_at: string | null; type: string | null; queue: string | null; group: string | null; since: string | null; until: string | null; patched: (string)[] | null; sample: number | null; rate: number; stop_above: number | null; stop_after: number; stop_failures: number | null; total: number; is_total_known: boolean; replayed: number; skipped: Record<string, number>; completed: number; failed: number; open: number; left: number; };

export type Replayed = { count: number; dry_run?: true; };

export type Replays = { replays: (ReplayView)[]; };

export type Result = { id: string; state: State; result?: unknown; result_base64?: string; result_encrypted?: string; };

export type Retried = { count: number; dry_run?: boolean; };

export type RetryBody = { reset_attempts?: boolean; delay?: number | string; priority?: number | "critical" | "high" | "normal" | "low" | "bulk" | null; };

export type RetryOptions = { max_attempts?: number | null; max_retries?: number | null; backoff?: "constant" | "exponential" | "linear" | null; initial_delay?: number | string | null; max_delay?: number | string | null; multiplier?: number | null; jitter?: "full" | number | null; on_timeout?: boolean | null; on_system?: boolean | null; };

export type RetrySelection = { state?: ("cancelled" | "completed" | "dead_letter" | "delayed" | "failed" | "in_flight" | "pending" | "ready" | "retrying" | "running" | "scheduled" | "succeeded")[]; type?: string | null; queue?: string | null; correlation_id?: string | null; flow?: string | null; id_prefix?: string | null; created_after?: string | null; created_before?: string | null; key?: string | null; error?: string | null; where?: (string)[]; tags?: Record<string, string>; priorities?: (number | "critical" | "high" | "normal" | "low" | "bulk")[]; ids?: (string)[] | null; dry_run?: boolean; expected?: number | null; reset_attempts?: boolean; delay?: number | string; priority?: number | "critical" | "high" | "normal" | "low" | "bulk" | null; };

export type Role = "admin" | "operate" | "read" | "submit" | "work";

export type ScaleReply = { queue: string; depth: number; running: number; slots: number; wanted_slots: number; drain_seconds: number | null; oldest_age: number | null; wanted_workers: number; };

export type Selection = { state?: ("cancelled" | "completed" | "dead_letter" | "delayed" | "failed" | "in_flight" | "pending" | "ready" | "retrying" | "running" | "scheduled" | "succeeded")[]; type?: string | null; queue?: string | null; correlation_id?: string | null; flow?: string | null; id_prefix?: string | null; created_after?: string | null; created_before?: string | null; key?: string | null; error?: string | null; where?: (string)[]; tags?: Record<string, string>; priorities?: (number | "critical" | "high" | "normal" | "low" | "bulk")[]; ids?: (string)[] | null; dry_run?: boolean; expected?: number | null; };

export type Sent = { id: string; name: string; sent_at: string; jobs: (Accepted)[]; };

export type Series = { at: string; start: string; step: number; series: (Line)[]; };

export type SeriesMetric = "cancelled" | "completed" | "dead" | "depth" | "enqueued" | "failed" | "oldest_age" | "run_p50" | "run_p99" | "running" | "wait_p50" | "wait_p99";

export type SessionBody = { token: string; };

export type State = "cancelled" | "completed" | "dead_letter" | "delayed" | "failed" | "pending" | "retrying" | "running" | "scheduled";

export type Statistics = { at: string; window: number; counts: Record<string, number>; submitted_rate: number; ended_rate: number; wait: Percentiles | null; run: Percentiles | null; queues: (Figures)[]; types: (Figures)[]; sample: number; is_sampled: boolean; refused?: number; };

export type StoreView = { engine: string; durability: string | null; };

export type Submission = { type: string; payload?: unknown; payload_base64?: string; queue?: string | null; priority?: number | "critical" | "high" | "normal" | "low" | "bulk" | null; delay?: number | string | null; run_at?: string | null; key?: string | null; on_duplicate?: "reject" | "return" | null; key_window?: number | string | "active" | null; tags?: Record<string, string> | null; correlation_id?: string | null; callback_url?: string | null; concurrency_key?: string | null; timeout?: number | string | null; lease_ttl?: number | string | null; lifetime?: number | string | null; retry?: RetryOptions | null; after?: (string)[] | null; after_any?: (string)[] | null; accept_failures?: boolean | null; };

export type SubmittedFlow = { id: string; jobs: Record<string, Accepted>; };

export type Target = { kind: "group" | "queue" | "store" | "type" | "worker"; name: string; };

export type Ticks = { ticks: (string)[]; };

export type TokenView = { id: string; name: string; roles: (Role)[]; queues: (string)[] | null; rate: number | null; created_at: string; expires_at: string | null; revoked_at: string | null; };

export type Tokens = { tokens: (TokenView)[]; };

export type TypeLimitBody = { rate: string | null; };

export type TypeView = { name: string; is_paused?: boolean; counts?: Record<string, number>; rate?: Rate | null; };

export type Types = { types: (TypeView)[]; };

export type WorkerInfo = { id: string; host: string; pid: number; queues: Record<string, number> | null; types: (string)[]; concurrency: number; started_at: string; running?: number; seen_at?: string | null; version?: string | null; fencepost_version?: string | null; lag?: number | null; is_leader?: boolean; has_stopped?: boolean; };

export type Workers = { workers: (WorkerInfo)[]; gone?: (WorkerInfo)[]; };
