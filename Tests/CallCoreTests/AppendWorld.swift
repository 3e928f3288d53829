import CallCore

/// A journal, what is on its way to it, and two owners of its shard, of whom the second takes over at any moment.
/// A value, so that everything that can happen from here is tried, one thing at a time.
struct AppendWorld: Hashable {
  struct Record: Hashable {
    var owner: Int
    var number: UInt64
    var previous: UInt64
  }

  struct Message: Hashable {
    var record: Record
    var expecting: UInt64
  }

  enum Answer: Hashable {
    case appended(UInt64)
    case refused
  }

  struct Owner: Hashable {
    enum Phase { case waiting, owns, gone }
    var phase = Phase.waiting
    var append: AppendMachine?
    var answer: Answer?
    /// The number of its last append.
    var number: UInt64 = 0
    /// As it believes.
    var position: UInt64 = 0
    var end: UInt64 = 0
    /// How many records count, as it believes.
    var known = 0
    /// The numbers of the records that it spoke of.
    var spoken: [UInt64] = []
  }

  /// The faults that may still happen.
  struct Budget: Hashable {
    var losses = 1
    var copies = 1
    /// Appends that the store takes although its end is another: two that are under way at once.
    var races = 1
    var staleReads = 1
    var crashes = 1
  }

  /// Mistakes that the explorer has to find.
  enum Sabotage: CaseIterable {
    /// Every answer proves that nothing came between.
    case answersBelieved
    /// An append without an answer counts.
    case silenceBelieved
    /// An append that the journal does not show is taken for appended.
    case absenceBelieved
    /// An owner that finds its own record takes it to count, whatever stands before it.
    case chainIgnored
    /// Whatever stands behind the own record is the end that the next append expects.
    case othersBelieved
  }

  static let recordsOfOwner: UInt64 = 2
  static let rules = AppendMachine.Rules(attemptsMax: 2)
  static let now = Timestamp(microseconds: 0)

  var journal: [Record] = []
  var network: [Message] = []
  var owners = [Owner(), Owner()]
  var budget = Budget()

  /// The records that count, for every reader.
  var counting: [Record] {
    var chain = JournalChain(position: 0, end: 0)
    return journal.enumerated().compactMap { index, record in
      chain.append(UInt64(index + 1), previous: record.previous) == .counts ? record : nil
    }
  }

  /// nil: all is well.
  var violation: String? {
    let counting = counting
    for (index, owner) in owners.enumerated() {
      for number in owner.spoken
      where !counting.contains(where: { $0.owner == index && $0.number == number }) {
        return "owner \(index) spoke of record \(number), which does not count: \(self)"
      }
      let mine = counting.filter { $0.owner == index }.map(\.number)
      if mine != mine.sorted() || Set(mine).count != mine.count {
        return "records of owner \(index) count twice, or in another order: \(self)"
      }
    }
    // Once a record of who took over counts, the former owner's do no more.
    let changes = zip(counting, counting.dropFirst()).count { $0.owner != $1.owner }
    if changes > 1 { return "both owners' records count in turns: \(self)" }
    return nil
  }

  // MARK: What can happen next

  private func after(_ change: (inout AppendWorld) -> Void) -> AppendWorld {
    var world = self
    change(&world)
    return world
  }

  func successors(_ sabotage: Sabotage?) -> [AppendWorld] {
    var next: [AppendWorld] = []
    func add(_ change: (inout AppendWorld) -> Void) { next.append(after(change)) }
    for index in network.indices {
      add { $0.store(index, isRace: false) }
      if network[index].expecting != UInt64(journal.count), budget.races > 0 {
        add { $0.store(index, isRace: true) }
      }
      if budget.losses > 0 {
        add {
          $0.network.remove(at: index)
          $0.budget.losses -= 1
        }
      }
      if budget.copies > 0 {
        add {
          $0.network.append($0.network[index])
          $0.budget.copies -= 1
        }
      }
    }
    for index in owners.indices { next += successors(of: index, sabotage) }
    return next
  }

  private func successors(of index: Int, _ sabotage: Sabotage?) -> [AppendWorld] {
    var next: [AppendWorld] = []
    func add(_ change: (inout AppendWorld) -> Void) { next.append(after(change)) }
    let owner = owners[index]
    switch owner.phase {
    case .gone: return []
    case .waiting:
      for length in readable { add { $0.takeOver(index, reading: length) } }
      return next
    case .owns: break
    }
    if budget.crashes > 0 {
      add {
        $0.owners[index].phase = .gone
        $0.budget.crashes -= 1
      }
    }
    guard let append = owner.append else {
      if owner.number < Self.recordsOfOwner { add { $0.begin(index) } }
      return next
    }
    switch append.state {
    case .inFlight:
      add { $0.take(.unanswered, index, sabotage) }
      if let answer = owner.answer { add { $0.take($0.event(answer, append), index, sabotage) } }
    case .fateUnknown, .absent: add { $0.take(.time, index, sabotage) }
    case .lookingUp:
      for length in readable {
        add { $0.take(.lookedUp($0.look(index, reading: length, sabotage)), index, sabotage) }
      }
    case .committed, .givenUp: break
    }
    return next
  }

  /// How much of the journal a reader may be shown: all of it, or what a leader that was cut off has.
  private var readable: ClosedRange<Int> {
    budget.staleReads > 0 ? 0...journal.count : journal.count...journal.count
  }

  // MARK: The store

  private mutating func store(_ index: Int, isRace: Bool) {
    let message = network.remove(at: index)
    let owner = message.record.owner
    let fits = message.expecting == UInt64(journal.count)
    if isRace { budget.races -= 1 }
    if fits || isRace { journal.append(message.record) }
    guard message.record.number == owners[owner].number, owners[owner].append?.state == .inFlight
    else { return }
    owners[owner].answer = fits || isRace ? .appended(UInt64(journal.count)) : .refused
  }

  private func event(_ answer: Answer, _ append: AppendMachine) -> AppendMachine.Event {
    switch answer {
    case .appended(let sequence):
      .appended(sequence: sequence, isNext: sequence == append.expecting + 1)
    case .refused: .refused
    }
  }

  // MARK: Owners

  private mutating func takeOver(_ index: Int, reading length: Int) {
    if length < journal.count { budget.staleReads -= 1 }
    var chain = JournalChain(position: 0, end: 0)
    for (place, record) in journal[..<length].enumerated() {
      if chain.append(UInt64(place + 1), previous: record.previous) == .counts {
        owners[index].known += 1
      }
    }
    owners[index].phase = .owns
    owners[index].position = chain.position
    owners[index].end = chain.end
  }

  private mutating func begin(_ index: Int) {
    owners[index].number += 1
    owners[index].append = AppendMachine(expecting: owners[index].end, rules: Self.rules)
    send(index, expecting: owners[index].end)
  }

  private mutating func send(_ index: Int, expecting: UInt64) {
    let owner = owners[index]
    let record = Record(owner: index, number: owner.number, previous: owner.position)
    network.append(Message(record: record, expecting: expecting))
  }

  private mutating func take(
    _ event: AppendMachine.Event, _ index: Int, _ sabotage: Sabotage?
  ) {
    owners[index].answer = nil
    var event = event
    if sabotage == .answersBelieved, case .appended(let sequence, _) = event {
      event = .appended(sequence: sequence, isNext: true)
    }
    if sabotage == .silenceBelieved, event == .unanswered {
      event = .appended(sequence: owners[index].end + 1, isNext: true)
    }
    let deadline = owners[index].append!.nextDeadline
    let now = event == .time ? deadline : Self.now
    switch owners[index].append!.handle(event, now: now) {
    case .append(let expecting): send(index, expecting: expecting)
    case .lookUp, nil: break
    case .commit(let sequence, let end):
      owners[index].append = nil
      owners[index].position = sequence
      owners[index].end = end
      owners[index].known += 1
      owners[index].spoken.append(owners[index].number)
    case .giveUp: owners[index].phase = .gone
    }
  }

  private mutating func look(
    _ index: Int, reading length: Int, _ sabotage: Sabotage?
  ) -> AppendMachine.LookupResult {
    if length < journal.count { budget.staleReads -= 1 }
    let owner = owners[index]
    let expecting = owner.append!.expecting
    guard UInt64(length) >= expecting else { return .unreadable("an old end") }
    let records = journal[Int(expecting)..<length].enumerated().map { place, record in
      (
        sequence: expecting + UInt64(place) + 1,
        record: JournalRecord(
          epoch: UInt64(record.owner), number: record.number, writer: "\(record.owner)",
          at: Self.now, entries: [],
          previous: sabotage == .chainIgnored ? owner.position : record.previous)
      )
    }.filter { sabotage != .chainIgnored || $0.record.writer == "\(index)" }
    let question = AppendMachine.LookupResult.Question(
      previous: owner.position, expecting: expecting, writer: "\(index)", epoch: UInt64(index),
      number: owner.number)
    let found = AppendMachine.LookupResult.evaluate(
      question, behind: records.map { ($0.sequence, Optional($0.record)) })
    if sabotage == .othersBelieved, case .ours(let sequence, _) = found {
      return .ours(sequence: sequence, end: UInt64(length))
    }
    if sabotage == .absenceBelieved, case .unchanged(let end) = found {
      return .ours(sequence: end, end: end)
    }
    return found
  }
}
