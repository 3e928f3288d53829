/// One shard: its users' sessions and registrations, and the calls to them. Does no I/O and reads no
/// clock.
///
/// The shard of the callee owns the call, so every race of a call is decided here, in one order.
/// The shard's decisions go into an `Outcome`: facts for the journal, and effects, which the
/// driver carries out once the journal has the facts.
public struct ShardMachine: Sendable {
  public let shard: Int
  public let epoch: UInt64
  public var limits: CallLimits { _read { yield sharedLimits.values } }
  let sharedLimits: SharedLimits

  var calls = CallTable()
  var placedCalls = PlacedCalls()
  var users: [UserKey: User] = [:]
  /// Writes to the store, by the token of their effect.
  var pendingStores: [UInt64: PendingStore] = [:]
  /// Registrations that wait for their push tokens, by the token of their effect.
  var pendingClaims: [UInt64: PendingClaim] = [:]
  /// Reports of tokens that are gone whose events are to be stored first, by the token of their effect.
  var pendingGone: [UInt64: PendingGone] = [:]
  var lastEffectToken: UInt64 = 0
  /// Calls that may have something to push.
  var callsWantingPush: [CallID] = []
  /// Calls whose callees' other devices are to ring.
  var callsWantingOthers: [CallID] = []
  /// Whether sleeping devices are pushed and tokens claimed: not before every node that may own the
  /// shard can read what these leave in the journal.
  public var mayPush = true
  /// Whether devices take calls over: as `mayPush`.
  public var mayMove = true
  /// Whether calls go on to other users: as `mayPush`.
  public var mayDivert = true
  /// Whether calls are transferred to other users: as `mayPush`.
  public var mayTransfer = true
  /// The parts of calls that are stored outside the journal. Set it before any command.
  public var storedParts: StoredParts = []
  /// Ended calls that would be forgotten if they did not lack something that is to be stored.
  var unrecorded: Set<CallID> = []
  /// The room in the shard's journal.
  public var room = JournalRoom.enough
  /// When registrations are searched for expired ones.
  var expirySweepAt = Timestamp.distantFuture
  var tally = ShardCounts()
  /// False until every edge has announced its sessions: until then nothing is delivered.
  var isServing = false
  /// Edges whose sessions the shard does not know, and until when they may be there. 0 stands for
  /// devices between two edges.
  var missingEdges: [UInt64: Timestamp] = [:]
  var brokenSessions = BrokenSessions()
  var deadlines = DeadlineQueue<CallID>()
  /// The boards of the users with a session that shows their calls.
  var boards: [UserKey: OngoingBoard] = [:]
  var boardDeadlines = DeadlineQueue<UserKey>()
  /// Calls of other shards that ring users of this one, or that one of their devices has answered.
  var visits = Visits()
  /// Users whose boards are to be looked at before the turn ends.
  var changedBoards: [UserKey] = []
  /// The boards of the users with a session that shows the state of their histories.
  var historyBoards: [UserKey: HistoryBoard] = [:]
  var historyDeadlines = DeadlineQueue<UserKey>()

  public init(shard: Int, epoch: UInt64, limits: CallLimits) {
    self.shard = shard
    self.epoch = epoch
    sharedLimits = SharedLimits(limits)
  }

  public var counts: ShardCounts { tally }

  // MARK: Commands

  /// Decides a command. Before `begin` only commands about sessions may come.
  public mutating func handle(_ command: Command, now: Timestamp, into outcome: inout Outcome) {
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    guard isServing || command.body.isAboutSession else {
      turn.outcome.faults.append(MachineFault(.commandBeforeBegin, call: command.body.call))
      return turn.reply(command, .error(CallError(.internalError)))
    }
    switch command.body {
    case .attach(let attach): self.attach(command, attach, &turn)
    case .sessionClosed(let graceful):
      sessionClosed(command.user, command.session, graceful: graceful, &turn)
    case .callerGone(let ids):
      for id in ids {
        mutate(id) { $0.callerSessionLost(command.session, &turn) }
      }
    case .register(let request): register(command, request, &turn)
    case .unregister(let device): unregister(command, device, &turn)
    case .place(let request): place(command, request, &turn)
    case .ack(let items):
      for item in items {
        if item.call == Acknowledgement.ongoingID {
          boards[command.user]?.acknowledge(command.session, item.version)
        } else if item.call == Acknowledgement.historyID {
          historyBoards[command.user]?.acknowledge(command.session, item.version)
        }
        mutate(item.call) { call in
          let role = call.role(of: command.user, command.device)
          call.acknowledge(role, item.version, on: command.session, &turn)
        }
      }
    case .call(let id, let verb): handle(command, id, verb, &turn)
    case .calls: liveCalls(command, &turn)
    case .pushReport(let report): pushReported(command, report, &turn)
    case .tokenTaken(let taken): tokenTaken(command, taken, &turn)
    case .talking(let talking): self.talking(command, talking, &turn)
    case .crossed(let crossed): self.crossed(command, crossed, &turn)
    case .merge(let request): merge(command, request, &turn)
    case .replaced(let request): replaced(command, request, &turn)
    case .history(let body): history(command, body, &turn)
    case .visit(let request): visit(command, request, &turn)
    case .rules(let request): rules(command, request, &turn)
    case .app(let request): app(command, request, &turn)
    }
    if !callsWantingPush.isEmpty || !callsWantingOthers.isEmpty { carryOutPushes(&turn) }
    if !changedBoards.isEmpty { showOngoing(&turn) }
  }

  // MARK: Time

  /// When `fire` is due next.
  public var nextDeadline: Timestamp {
    // It changes nothing: its callers would copy the whole machine to look at it.
    mutating get {
      guard isServing else { return .distantFuture }
      return min(deadlines.next, boardDeadlines.next, historyDeadlines.next, expirySweepAt)
    }
  }

  /// Carries out what is due.
  /// - Parameter isHeldBack: the journal has not taken for a while what was decided. Then nothing is
  ///   retransmitted that was not sent yet.
  public mutating func fire(now: Timestamp, isHeldBack: Bool = false, into outcome: inout Outcome) {
    guard isServing else { return }
    var turn = turn(at: now, isHeldBack: isHeldBack, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    var last = (call: CallID(high: 0, low: 0), times: 0)
    while let due = deadlines.popDue(now: now) {
      guard let slot = calls.slot(of: due.key), calls[slot].armedAt == due.at else { continue }
      last = last.call == due.key ? (due.key, last.times + 1) : (due.key, 1)
      if last.times > Self.ticksAtOnce {
        postpone(slot, &turn)
        continue
      }
      if calls[slot].isForgettable(turn) {
        forgetRecorded(due.key)
        continue
      }
      var retransmitted = 0
      mutate(due.key) { call in
        call.armedAt = .distantFuture
        retransmitted = call.tick(&turn)
      }
      tally.deliveryRepeatsTotal += UInt64(retransmitted)
      if !callsWantingPush.isEmpty || !callsWantingOthers.isEmpty { carryOutPushes(&turn) }
    }
    if expirySweepAt <= now { expireRegistrations(now: now, &turn) }
    if boardDeadlines.next <= now { fireBoards(&turn) }
    if historyDeadlines.next <= now { fireHistories(&turn) }
    if !changedBoards.isEmpty { showOngoing(&turn) }
  }

  /// More often no call is due at one moment.
  private static let ticksAtOnce = 1000

  /// One call must not keep a shard from all others.
  private mutating func postpone(_ slot: Int, _ turn: inout Turn) {
    let (id, later) = (calls[slot].id, turn.now + .seconds(1))
    turn.outcome.faults.append(MachineFault(.dueWithoutEnd, call: id))
    calls[slot].armedAt = later
    deadlines.insert(id, at: later)
  }

  /// The journal has taken what it held back for a while. That time does not count against any device.
  public mutating func wasHeldBack(now: Timestamp) {
    let turn = turn(at: now)
    for slot in calls.slots { calls[slot].allowTime(turn) }
  }
}

/// The room in a shard's journal. Commands are refused early, so that there is room for the answers and ends of
/// accepted calls.
public enum JournalRoom: Sendable {
  case enough
  /// No further calls (`overloaded`).
  case short
  /// Nor descriptions and candidates.
  case scarce
}
