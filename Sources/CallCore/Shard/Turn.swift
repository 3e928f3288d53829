/// One step of a shard: the inputs of its decisions, and their outcome.
struct Turn: ~Copyable {
  let now: Timestamp
  let sharedLimits: SharedLimits
  var limits: CallLimits { _read { yield sharedLimits.values } }
  let epoch: UInt64
  /// False before a new owner begins: until then it delivers nothing.
  let isServing: Bool
  /// The journal has not taken what was decided before. Retransmissions would only add to that, and all of
  /// them would leave at one moment.
  let isHeldBack: Bool
  /// Whether pushes are decided, calls diverted and transferred: what these leave in the journal every node can read.
  let mayPush: Bool
  let mayDivert: Bool
  let mayTransfer: Bool
  /// The parts of calls that are stored outside the journal.
  let storedParts: StoredParts
  var outcome = Outcome()

  /// Adds an effect.
  mutating func perform(_ effect: Effect, _ urgency: Outcome.Urgency = .urgent) {
    outcome.effects.append(effect)
    outcome.raise(to: urgency)
  }

  /// Replies to a command, if it wants a reply.
  mutating func reply(_ command: Command, _ reply: Reply, _ urgency: Outcome.Urgency = .urgent) {
    guard command.request != 0 else { return }
    perform(.reply(command.session, request: command.request, reply), urgency)
  }
}

/// The limits of a shard and of its turns, each of which would copy them.
final class SharedLimits: Sendable {
  let values: CallLimits
  init(_ values: CallLimits) { self.values = values }
}

extension ShardMachine {
  func turn(at now: Timestamp, isHeldBack: Bool = false) -> Turn {
    Turn(
      now: now, sharedLimits: sharedLimits, epoch: epoch, isServing: isServing,
      isHeldBack: isHeldBack, mayPush: mayPush, mayDivert: mayDivert, mayTransfer: mayTransfer,
      storedParts: storedParts)
  }

  /// A turn that adds to an outcome. It has what is in `outcome` already, until both are swapped again.
  func turn(at now: Timestamp, isHeldBack: Bool = false, taking outcome: inout Outcome) -> Turn {
    var turn = turn(at: now, isHeldBack: isHeldBack)
    swap(&turn.outcome, &outcome)
    return turn
  }
}
