import CallCore

/// One call of two users with two devices each, and of a third user, to whom it may be handed over. A few commands
/// reach its shard once, twice or not at all, in any order. The shard gets a new owner at any moment, also when its
/// owner dies after the journal has its decision and before any device is notified.
struct SmallCallWorld {
  struct Line: Sendable {
    var user: String
    var device: String
    var verb: CallVerb

    init(_ user: String, _ device: String, _ verb: CallVerb) {
      self.user = user
      self.device = device
      self.verb = verb
    }
  }

  enum Step: Sendable {
    case deliver(Int)
    /// The owner dies before it tells anybody.
    case deliverUntold(Int)
    case takeOver
  }

  /// A mistake that a judge has to find.
  enum Sabotage {
    /// A device that answers a call that another device has is notified that it won.
    case confirmsEveryAnswer
    /// The next owner reads a journal that lacks the last record, although devices were notified of it.
    case losesTheLastRecord
    /// A device is notified of the end of the call before it is over.
    case endsForTheWinner
  }

  private var bench: DivertingBench
  private let lines: [Line]
  private let sabotage: Sabotage?
  private(set) var steps: [Step] = []
  private var delivered: [Int]
  private var hasNewOwner = false
  /// Who has the sides, by the journal.
  private var caller = "alice/alice1"
  private var callee: String?
  private var ended: EndedFacts?
  private var readEntries = 0
  /// Every device that had a side.
  private var hadASide: Set<String> = ["alice/alice1"]
  private(set) var violation: String?

  init(_ lines: [Line], sabotage: Sabotage? = nil) {
    self.lines = lines
    self.sabotage = sabotage
    delivered = lines.map { _ in 0 }
    bench = DivertingBench()
    bench.owner.attach("b1", "b2")
    bench.attach("carol", "1")
    bench.place()
    look(from: 0, isTold: true)
  }

  /// The steps that may happen next.
  var next: [Step] {
    if violation != nil { return [] }
    var next: [Step] = []
    for line in lines.indices where delivered[line] < 2 {
      next.append(.deliver(line))
      if !hasNewOwner { next.append(.deliverUntold(line)) }
    }
    return hasNewOwner || steps.isEmpty ? next : next + [.takeOver]
  }

  mutating func take(_ step: Step) {
    steps.append(step)
    let from = bench.effects.count
    switch step {
    case .deliver(let line):
      deliver(line)
      look(from: from, isTold: true)
    case .deliverUntold(let line):
      deliver(line)
      look(from: from, isTold: false)
      takeOver()
    case .takeOver: takeOver()
    }
  }

  private mutating func deliver(_ number: Int) {
    let line = lines[number]
    delivered[number] += 1
    bench.owner.now = bench.owner.now + .milliseconds(1)
    bench.owner.say(
      line.verb, line.device, of: line.user, session: Self.session(line.user, line.device),
      number: UInt64(100 + number))
    bench.pump()
  }

  private static func session(_ user: String, _ device: String) -> SessionRef {
    user == "carol" ? DivertingBench.session(user, device) : Bench.session(device)
  }

  private mutating func takeOver() {
    hasNewOwner = true
    let from = bench.effects.count
    var journal = bench.owner.journal
    if sabotage == .losesTheLastRecord { journal.removeLast() }
    bench.owner.journal = journal
    readEntries = journal.count
    var owner = bench.owner.takenOver()
    for device in ["b1", "b2"] { owner.announce(device) }
    for (user, device) in [("alice", "alice1"), ("alice", "alice2"), ("carol", "1")]
    where caller == "\(user)/\(device)" {
      owner.say(.resume, device, of: user, session: Self.session(user, device), number: 0)
    }
    owner.begin()
    bench.owner = owner
    bench.pump()
    look(from: from, isTold: true)
  }

  // MARK: The judge

  private mutating func look(from first: Int, isTold: Bool) {
    readJournal()
    guard isTold else { return }
    for effect in bench.effects[first...] {
      switch effect {
      case .reply(let session, _, .answer(let won, let state)):
        check(session, won: won || sabotage == .confirmsEveryAnswer, state)
      case .reply(let session, _, .call(let state)): check(session, state)
      case .deliver(let session, let delivery):
        if case .stop(let stop) = delivery.event { check(session, ended: stop.reason, stop.by) }
      default: break
      }
    }
  }

  private mutating func readJournal() {
    let journal = bench.owner.journal
    for entry in journal.dropFirst(readEntries) {
      switch entry.change {
      case .answered(let facts):
        if callee != nil { violation = "one winner: answered twice" }
        callee = Self.name(facts.by)
        hadASide.insert(Self.name(facts.by))
      case .moved(let facts):
        let from = facts.ofCaller ? caller : callee
        if from != Self.name(facts.from) {
          violation = "one story: it moves from who has not got it"
        }
        if facts.ofCaller { caller = Self.name(facts.to) } else { callee = Self.name(facts.to) }
        hadASide.insert(Self.name(facts.to))
      case .ended(let facts):
        if ended != nil { violation = "one story: ended twice" }
        ended = facts
      default: break
      }
    }
    readEntries = journal.count
  }

  private static func name(_ party: Party) -> String { "\(party.user)/\(party.device.text)" }

  private static let everybody = [
    ("alice", "alice1"), ("alice", "alice2"), ("bob", "b1"), ("bob", "b2"), ("carol", "1"),
  ]

  private static func name(_ session: SessionRef) -> String? {
    everybody.first { self.session($0.0, $0.1) == session }.map { "\($0.0)/\($0.1)" }
  }

  private func isHolder(_ device: String) -> Bool { device == caller || device == callee }

  /// A device that is notified that it won has it in the journal, and is the only one of its side.
  private mutating func check(_ session: SessionRef, won: Bool, _ state: CallState) {
    guard let device = Self.name(session) else { return }
    if won, !isHolder(device) { violation = "one winner: \(device) is told that it won" }
    check(session, state)
  }

  private mutating func check(_ session: SessionRef, _ state: CallState) {
    if state.phase == .ended { return check(session, ended: state.reason, state.by) }
    if let device = Self.name(session), state.phase == .answered, callee == nil {
      violation = "one story: \(device) is told of an answer; the journal has none"
    }
    if ended != nil, state.phase == .ringing || state.phase == .placed {
      violation = "one story: it is told to ring, and has ended"
    }
    if sabotage == .endsForTheWinner, state.phase == .answered {
      check(session, ended: .moved, nil)
    }
  }

  /// The end that a device is notified of agrees with the journal: the call's end, or the end of a part in it.
  private mutating func check(_ session: SessionRef, ended reason: EndReason?, _ by: Party?) {
    guard let device = Self.name(session), let reason else { return }
    switch reason {
    case .moved, .transferred:
      if !hadASide.contains(device) || isHolder(device) {
        violation = "one story: \(device) is told \(reason)"
      }
    case .answeredElsewhere:
      if callee == nil || isHolder(device) {
        violation = "one story: \(device) is told answeredElsewhere"
      }
    case .declined, .busy:
      // Also of its own part alone.
      if isHolder(device), ended?.reason != reason {
        violation = "one story: \(device) is told \(reason)"
      }
    default:
      guard let ended else {
        // A transfer that nobody took ends so for whom it rang.
        if device != "carol/1" {
          violation = "one story: \(device) is told \(reason), and it goes on"
        }
        return
      }
      if ended.reason != reason, device != "carol/1" {
        violation = "one story: \(device) is told \(reason); the journal says \(ended.reason)"
      }
    }
  }
}

/// Tries everything that can happen in so many steps.
struct SmallCallExplorer {
  private(set) var states = 0
  private(set) var violation: String?

  init(_ world: SmallCallWorld, steps: Int) { explore(world, steps) }

  private mutating func explore(_ world: SmallCallWorld, _ left: Int) {
    states += 1
    if let found = world.violation {
      violation = "\(found), after \(world.steps)"
      return
    }
    guard left > 0 else { return }
    for step in world.next {
      var next = world
      next.take(step)
      explore(next, left - 1)
      if violation != nil { return }
    }
  }
}
