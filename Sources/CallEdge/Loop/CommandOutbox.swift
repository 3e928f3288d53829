package import CallCore
internal import CallWire
internal import DequeModule

/// The commands of one event loop's sessions: collected into one batch per shard, kept until they are
/// answered, retransmitted, and given up after a timeout. It does no I/O and reads no clock.
package struct CommandOutbox {
  package struct Rules: Sendable {
    package var shardCount: Int
    /// Commands that may wait for their replies. Policy: refuse.
    package var pendingMax: Int
    package var resendAfter: Span
    package var timeout: Span
    /// A batch that would grow beyond this is split; a NATS message holds 1 MB.
    package var batchBytesMax = 262_144
    package init(shardCount: Int, pendingMax: Int, resendAfter: Span, timeout: Span) {
      self.shardCount = shardCount
      self.pendingMax = pendingMax
      self.resendAfter = resendAfter
      self.timeout = timeout
    }
  }

  package enum Submission: Equatable {
    case accepted
    /// The same command waits for its reply: one reply will answer both.
    case repeated
    /// Another command of the session waits under the same request id.
    case conflicting
    /// A description or candidate that the device sent before this one was given up: that one comes first.
    case outOfTurn
    case full
  }

  package final class Pending {
    package let command: Command
    package let since: Timestamp
    /// The command's stream. Kept, since each look at the command copies it.
    fileprivate let stream: SignalStreams.Key?
    /// Numbers the commands in the order in which they came.
    let order: UInt64
    /// It waits for a hook's decision, or behind one that does, and was not sent.
    var isHeld = false
    /// A hook refused this `place`: its shard is only asked whether it has the call already.
    package internal(set) var refusal: CallError?

    init(_ command: consuming Command, since: Timestamp, order: UInt64) {
      (self.since, self.order) = (since, order)
      stream = SignalStreams.key(command)
      self.command = command
    }
  }

  struct Key: Hashable {
    var session: UInt64
    var request: UInt64
  }
  /// When to retransmit a pending command. All wait equally long, so the queue is in order of time.
  private struct Reminder {
    var key: Key
    var since: Timestamp
    var due: Timestamp
  }
  private struct Batch {
    var commands: [Command] = []
    var bytes = 0
    /// Whether something in it cannot wait.
    var urgent = false
  }

  private let rules: Rules
  var pending: [Key: Pending] = [:]
  private var streams = SignalStreams()
  var held = HeldCommands()
  private var lastOrder: UInt64 = 0
  private var reminders: Deque<Reminder> = []
  private var batches: [Batch]
  /// Shards whose batches are not empty.
  private var touched: [Int] = []
  /// Full parts of batches, to be sent first.
  private var parts: [(shard: Int, commands: [Command])] = []

  package private(set) var hasUrgent = false
  package private(set) var hasLazy = false

  package init(rules: Rules) {
    self.rules = rules
    batches = Array(repeating: Batch(), count: rules.shardCount)
  }

  package var pendingCount: Int { pending.count }
  /// How many streams of signals have a gap: a request that was given up and has not come again.
  package var signalGaps: Int { streams.gapCount }
  /// How many gaps were forgotten because there were too many.
  package var signalGapsForgotten: UInt64 { streams.gapsForgotten }

  // MARK: Filling

  /// Whether a command of the same session waits under the same request id.
  package func isWaiting(_ command: Command) -> Bool {
    pending[Key(session: command.session.number, request: command.request)] != nil
  }

  /// Adds a command that will be answered.
  /// - Parameters:
  ///   - lazily: it may wait for the next flush of everything.
  ///   - awaitsHook: it is a `place` that leaves with `release`.
  package mutating func submit(
    _ command: consuming Command, lazily: Bool = false, awaitsHook: Bool = false, now: Timestamp
  ) -> Submission {
    let key = Key(session: command.session.number, request: command.request)
    if let former = pending[key] {
      return former.command.isRepeated(by: command) ? .repeated : .conflicting
    }
    guard pending.count < rules.pendingMax else { return .full }
    guard streams.admits(command, now: now) else { return .outOfTurn }
    streams.add(command)
    lastOrder += 1
    pending[key] = Pending(copy command, since: now, order: lastOrder)
    reminders.append(Reminder(key: key, since: now, due: now + rules.resendAfter))
    if awaitsHook || !held.isEmpty, hold(key, command.body.call, awaitsHook) { return .accepted }
    add(command, urgent: !lazily)
    return .accepted
  }

  /// Adds a command that has no reply, so that it is never retransmitted.
  package mutating func submit(unanswered command: consuming Command) {
    add(command, urgent: true)
  }

  /// Retransmits what is not answered, in the order in which it was submitted: what was under way to a shard's former
  /// owner, or was not sent while the bus was not connected, is lost, and a call's `place` must come before what
  /// follows it.
  /// - Parameters:
  ///   - shard: nil: to all shards.
  ///   - isLive: as for `sweep`.
  package mutating func retransmit(toShard shard: Int? = nil, isLive: (UInt64) -> Bool) {
    let waiting = pending.values.filter {
      !$0.isHeld && (shard == nil || self.shard(of: $0.command) == shard)
        && isLive($0.command.session.number)
    }
    for entry in waiting.sorted(by: { $0.order < $1.order }) { add(entry.outgoing, urgent: true) }
  }

  /// Adds acknowledgements, which may wait for others. Those of one session and callee are joined.
  package mutating func acknowledge(_ command: consuming Command) {
    let shard = ShardHash.shard(of: command.callee, count: rules.shardCount)
    guard case .ack(let items) = command.body else { return }
    let fits = batches[shard].bytes + 32 * items.count <= rules.batchBytesMax
    // Only among the latest few: joining saves bytes, and a search of the whole batch would cost more.
    for index in batches[shard].commands.indices.suffix(4).reversed() where fits {
      guard batches[shard].commands[index].join(items, of: command) else { continue }
      batches[shard].bytes += 32 * items.count
      return
    }
    add(consume command, urgent: false)
  }

  private func shard(of command: Command) -> Int {
    if let shard = command.body.namedShard { return min(Int(shard), rules.shardCount - 1) }
    return ShardHash.shard(of: command.callee, count: rules.shardCount)
  }

  mutating func add(_ command: consuming Command, urgent: Bool) {
    command.after = streams.predecessor(of: command)
    let shard = shard(of: command)
    let bytes = command.approximateBytes
    if batches[shard].commands.isEmpty {
      touched.append(shard)
    } else if batches[shard].bytes + bytes > rules.batchBytesMax {
      parts.append((shard, batches[shard].commands))
      batches[shard].commands = []
      batches[shard].bytes = 0
      hasUrgent = true
    }
    batches[shard].commands.append(command)
    batches[shard].bytes += bytes
    if urgent {
      batches[shard].urgent = true
      hasUrgent = true
    } else {
      hasLazy = true
    }
  }

  // MARK: Emptying

  /// Passes on the batches that hold something urgent; with `all`, all batches.
  package mutating func flush(all: Bool, _ send: (_ shard: Int, [Command]) -> Void) {
    for part in parts { send(part.shard, part.commands) }
    parts.removeAll(keepingCapacity: true)
    var waiting: [Int] = []
    for shard in touched {
      guard all || batches[shard].urgent else {
        waiting.append(shard)
        continue
      }
      send(shard, batches[shard].commands)
      batches[shard].commands.removeAll(keepingCapacity: true)
      batches[shard].bytes = 0
      batches[shard].urgent = false
    }
    touched = waiting
    hasUrgent = false
    hasLazy = !waiting.isEmpty
  }

  /// Whether a reply says that a call is unknown while the call's `place` still waits for a reply: the command
  /// has overtaken the `place`. It stays pending, and is retransmitted after the `place`.
  package func hasOvertaken(session: UInt64, request: UInt64, _ reply: Reply) -> Bool {
    guard case .error(let error) = reply, error.code == .unknownCall,
      let entry = pending[Key(session: session, request: request)], entry.refusal == nil,
      let call = entry.command.body.call
    else { return false }
    return pending.contains {
      guard $0.key.session == session, $0.value.refusal == nil,
        case .place(let place) = $0.value.command.body
      else {
        return false
      }
      return place.call == call
    }
  }

  /// Removes the command that a reply answers.
  /// - Returns: nil where no command waits for the reply, as with a second reply.
  package mutating func replied(session: UInt64, request: UInt64) -> Pending? {
    take(Key(session: session, request: request))
  }

  /// - Parameter freeing: whether the commands that wait only for this one are sent.
  mutating func take(_ key: Key, freeing: Bool = true) -> Pending? {
    guard let entry = pending.removeValue(forKey: key) else { return nil }
    if let stream = entry.stream { streams.remove(key.request, from: stream) }
    if entry.isHeld, let call = entry.command.body.call {
      let free = held.remove(session: key.session, call: call, request: key.request)
      if freeing { send(free, of: key.session) }
    }
    return entry
  }

  /// Retransmits commands that have waited for `resendAfter`, and gives up those that have waited for
  /// `timeout`. With a description or candidate go those of the same call that the device sent after it, so
  /// that their order stays.
  /// - Parameters:
  ///   - isLive: whether a session still exists. The commands of others are dropped: a retransmitted attach
  ///     must not follow the message that its session closed.
  ///   - giveUp: is called with each command that is given up.
  /// - Returns: how many commands are retransmitted.
  package mutating func sweep(
    now: Timestamp, isLive: (UInt64) -> Bool, giveUp: (Pending) -> Void
  ) -> Int {
    streams.expire(now: now)
    var resent = 0
    while let reminder = reminders.first, reminder.due <= now {
      reminders.removeFirst()
      // Where it differs, another command came under the same id, with a reminder of its own.
      guard let entry = pending[reminder.key], entry.since == reminder.since else { continue }
      guard isLive(reminder.key.session) else {
        _ = take(reminder.key, freeing: false)
        continue
      }
      let requests = streams.from(entry.command)
      guard now < entry.since + rules.timeout else {
        streams.openGap(at: entry.command, requests, for: rules.timeout, now: now)
        for request in requests {
          let late = take(Key(session: reminder.key.session, request: request))
          if let late { giveUp(late) }
        }
        continue
      }
      for request in requests {
        guard let next = pending[Key(session: reminder.key.session, request: request)],
          !next.isHeld
        else { continue }
        add(next.outgoing, urgent: true)
        resent += 1
      }
      reminders.append(
        Reminder(key: reminder.key, since: reminder.since, due: now + rules.resendAfter))
    }
    return resent
  }
}

extension Command {
  /// Adds acknowledgements of another command, if this one has some of the same session and callee.
  fileprivate mutating func join(_ items: [Acknowledgement], of other: borrowing Command) -> Bool {
    guard session == other.session, callee == other.callee, case .ack(let mine) = body else {
      return false
    }
    body = .ack(mine + items)
    return true
  }

  /// Whether another command under the same request id is a repetition of this one. What the edge adds to an attach or
  /// a place does not count: times differ, and names and the app's terms may have changed meanwhile.
  fileprivate func isRepeated(by other: Command) -> Bool {
    var other = other
    // A session that renews its token gets another credential.
    other.credential = credential
    if case .attach(var mine) = body, case .attach(let theirs) = other.body {
      mine.attachedAt = theirs.attachedAt
      mine.userName = theirs.userName
      return mine == theirs
    }
    if case .place(let mine) = body, case .place(let theirs) = other.body {
      return mine.setup == theirs.setup && callee == other.callee
    }
    return self == other
  }
}
