internal import CallBus
internal import CallCoordinator
internal import CallCore
internal import CallWire

/// Rules of journals, and of the messages that nodes send, judged after every append and message.
///
/// It keeps all records, including purged ones.
package final class StoreInvariants: @unchecked Sendable {
  /// A record's place: its epoch, and its number in it.
  struct Mark: Comparable {
    var epoch: UInt64
    var number: UInt64
    static let none = Mark(epoch: 0, number: 0)
    static func < (a: Self, b: Self) -> Bool { (a.epoch, a.number) < (b.epoch, b.number) }
  }

  struct Owner: Equatable {
    var writer: String
    var process: Int
  }

  struct Shard {
    var last = Mark.none
    var lastProcess = -1
    var lastIsRelease = false
    var records = 0
    var owners: [UInt64: Owner] = [:]
    var marks: [UInt64: (mark: Mark, process: Int)] = [:]
    var placed: Set<CallID> = []
    var winners: [CallID: DeviceID] = [:]
    /// Devices that have taken the call over.
    var holders: [CallID: Set<DeviceID>] = [:]
    var ended: Set<CallID> = []
    /// Calls that ended because they gave way to a crossing one.
    var gaveWay: Set<CallID> = []
    /// Devices that declined, or were busy, for themselves.
    var refusers: [CallID: Set<DeviceID>] = [:]
    /// Calls that left a user while they rang.
    var left: Set<CallID> = []
    /// Calls of which a side was to be handed over.
    var transferred: Set<CallID> = []
    /// All records ever, replayed one by one.
    var all: ShardMachine

    /// Whether a record says that the device has, or had, the answered call.
    func has(_ device: DeviceID, _ call: CallID) -> Bool {
      winners[call] == device || holders[call]?.contains(device) ?? false
    }
  }

  struct ProcessShard: Hashable {
    var process: Int
    var shard: Int
  }

  package let world: SimWorld
  let nats: SimNATS
  let app: String
  let subjects: Subjects
  let shardCount: Int
  let limits: CallLimits
  let checkpointEveryRecords: Int
  var shards: [Shard]
  /// The last append that a process started, and its last one that it has learned to be stored.
  var started: [ProcessShard: Mark] = [:]
  var known: [ProcessShard: Mark] = [:]
  var waiting: [SpokenTo: Asked] = [:]
  let reader: CheckpointReader
  /// By a registration's key: the epoch of the owner that wrote it last, and whether it removed it.
  private var registrationWriters: [String: (epoch: UInt64, removed: Bool)] = [:]

  /// - Parameters:
  ///   - app: the app of all users of the world.
  ///   - options: how the coordinators are set up.
  package init(_ nats: SimNATS, app: String, options: SimCoordinatorOptions) {
    self.nats = nats
    self.app = app
    world = nats.world
    shardCount = options.shardCount
    limits = options.limits
    checkpointEveryRecords = options.checkpointEveryRecords
    subjects = Subjects(cluster: options.cluster, shardCount: options.shardCount)
    shards = (0..<options.shardCount).map {
      Shard(all: ShardMachine(shard: $0, epoch: 1, limits: options.limits))
    }
    reader = CheckpointReader(nats, bucket: subjects.checkpointStream)
    nats.observers.appendStarted.append { [unowned self] in appendStarted($0, $1, $2) }
    nats.observers.appended.append { [unowned self] in appended($0, $1, $2) }
    nats.observers.appendedBehindGap.append { [unowned self] node, shard, _ in
      broken("\(node.name) follows a record that journal \(shard) does not have")
    }
    nats.observers.appendKnown.append { [unowned self] in appendKnown($0, $1, $2) }
    nats.observers.purged.append { [unowned self] shard, sequence in
      world.note("journal \(shard)", "purged through \(sequence)")
      checkReplay(shard)
    }
    nats.observers.written.append { [unowned self] in written($0, $1) }
    nats.observers.put.append { [unowned self] in put($0) }
    nats.observers.published.append { [unowned self] in published($0, $1) }
    nats.observers.delivered.append { [unowned self] in delivered($0, $1) }
  }

  func broken(_ sentence: String, call: CallID? = nil) { world.stop(sentence, call: call) }

  // MARK: Appends

  private func appendStarted(_ node: SimNode, _ shard: Int, _ bytes: [UInt8]) {
    guard let record = try? ClusterCodec.journalRecord(bytes) else {
      return broken("\(node.name) appends what cannot be read")
    }
    let place = ProcessShard(process: node.number, shard: shard)
    let mark = Mark(epoch: record.epoch, number: record.number)
    started[place] = max(started[place] ?? .none, mark)
  }

  /// A valid record is in a journal. The store may take others, which are void for every reader.
  private func appended(_ node: SimNode, _ shard: Int, _ stored: StoredRecord) {
    guard shards.indices.contains(shard),
      let record = try? ClusterCodec.journalRecord(stored.bytes)
    else { return broken("journal \(shard) takes what cannot be read") }
    let mark = Mark(epoch: record.epoch, number: record.number)
    world.note(
      "journal \(shard)",
      "\(stored.sequence): \(record.writer) \(mark.epoch).\(mark.number), "
        + "\(record.entries.count) entries\(record.released ? ", released" : "")")
    if mark.number == 0 || record.released {
      world.incident(
        "journal \(shard)",
        "\(record.writer) \(record.released ? "gives it up" : "takes it over"), "
          + "epoch \(mark.epoch)")
    }
    checkPlace(node, shard, stored.sequence, record)
    shards[shard].last = mark
    shards[shard].lastProcess = node.number
    shards[shard].lastIsRelease = record.released
    shards[shard].records += 1
    shards[shard].marks[stored.sequence] = (mark, node.number)
    for entry in record.entries { apply(entry, shard, record) }
    shards[shard].all.replay(record.entries, now: record.at)
  }

  private func checkPlace(
    _ node: SimNode, _ shard: Int, _ sequence: UInt64, _ record: JournalRecord
  ) {
    let last = shards[shard].last
    let what = "journal \(shard), record \(sequence) of \(record.writer)"
    let owner = Owner(writer: record.writer, process: node.number)
    if record.epoch < last.epoch {
      broken("\(what): epoch \(record.epoch) stands behind the fence of epoch \(last.epoch)")
    } else if record.epoch == last.epoch {
      if shards[shard].owners[record.epoch] != owner {
        broken("\(what): epoch \(record.epoch) has two owners")
      }
      // A fence without a reply may be written again.
      let isFenceAgain = record.number == 0 && last.number == 0 && record.entries.isEmpty
      if isFenceAgain {
        world.count("store.fence repeated")
      } else if record.number != last.number + 1 {
        broken("\(what): number \(record.number) follows \(last.number)")
      }
      if shards[shard].lastIsRelease { broken("\(what): it follows the record that gave up") }
    } else {
      if record.number != 0 { broken("\(what): epoch \(record.epoch) begins without a fence") }
      shards[shard].owners[record.epoch] = owner
      world.count("store.terms")
    }
  }

  // MARK: Checkpoints

  private func written(_ bucket: String, _ entry: KeyValueEntry) {
    guard bucket == subjects.checkpointStream, entry.key.hasSuffix(".head"),
      let head = entry.value.flatMap({ CheckpointStore.Head(String(decoding: $0, as: UTF8.self)) })
    else { return }
    world.note(
      "journal \(entry.key.prefix { $0 != "." })",
      "checkpoint at \(head.sequence), of epoch \(head.epoch)")
  }

  // MARK: Registrations

  /// A former owner must not overwrite a later owner's registration, which no fence prevents, unless
  /// the store took two racing writes. Only a first registration, which expects revision 0, may follow
  /// a later owner's removal: the product allows that (docs/reliability.md).
  private func put(_ put: SimNATS.BucketPut) {
    guard put.bucket == subjects.registrationBucket,
      let shard = Self.shard(ofRegistration: put.key),
      let epoch = started[ProcessShard(process: put.node.number, shard: shard)]?.epoch
    else { return }
    if let last = registrationWriters[put.key], last.epoch > epoch, !put.raced,
      !(last.removed && put.expected == 0)
    {
      broken("\(put.node.name) of epoch \(epoch) writes over a registration of epoch \(last.epoch)")
    }
    registrationWriters[put.key] = (epoch, put.isRemoval)
  }

  private static func shard(ofRegistration key: String) -> Int? {
    // That of a user's rules begins with a word.
    key.split(separator: ".").lazy.filter { $0 != "rules" }.first.flatMap { Int($0) }
  }

  /// Whether the journal of a registration's shard has an owner later than this process.
  func isFormerOwner(_ node: SimNode, ofRegistration key: String) -> Bool {
    guard let shard = Self.shard(ofRegistration: key), shards.indices.contains(shard) else {
      return false
    }
    return shards[shard].lastProcess != node.number
  }

  // MARK: Entries

  private func apply(_ entry: JournalEntry, _ shard: Int, _ record: JournalRecord) {
    switch entry.change {
    case .placed: shards[shard].placed.insert(entry.call)
    case .answered(let facts):
      if let former = shards[shard].winners.updateValue(facts.by.device, forKey: entry.call),
        former != facts.by.device
      {
        broken("two devices won: \(former.text) and \(facts.by.device.text)", call: entry.call)
      }
    case .moved(let move): shards[shard].holders[entry.call, default: []].insert(move.to.device)
    case .ended(let facts):
      if facts.reason == .glare { shards[shard].gaveWay.insert(entry.call) }
      if !shards[shard].ended.insert(entry.call).inserted {
        broken("the call ended twice", call: entry.call)
      }
    case .legEnded(let device, let end, _):
      // A device of another user than the callee is named with its user.
      let id = device.text.split(separator: "\u{1f}").last.map { DeviceID(String($0)) }
      if end != .gone { shards[shard].refusers[entry.call, default: []].insert(id ?? device) }
    case .diverted(let facts):
      shards[shard].left.insert(entry.call)
      if facts.reason == .transferred { shards[shard].transferred.insert(entry.call) }
    default: break
    }
  }

  /// A process learns that a record is stored: from the reply, or from a read.
  private func appendKnown(_ node: SimNode, _ shard: Int, _ sequence: UInt64) {
    guard let (mark, process) = shards[shard].marks[sequence], process == node.number else {
      return
    }
    let place = ProcessShard(process: process, shard: shard)
    known[place] = max(known[place] ?? .none, mark)
  }
}
