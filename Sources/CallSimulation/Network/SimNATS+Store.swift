internal import CallBus
internal import CallCore
internal import CallWire

extension SimNATS {
  // MARK: Journals

  func append(_ shard: Int, expecting: UInt64, _ bytes: [UInt8], from node: SimNode)
    -> AppendResult
  {
    let before = store.last(shard)
    let isStale = before?.sequence ?? 0 != expecting
    let races = isStale && strikes("racing append taken", faults.appendRaces)
    let bytes = tamper.changesAppend(bytes)
    let result = store.append(
      shard, expecting: expecting, bytes, always: races || tamper.ignoresJournalExpectation)
    if case .appended(let sequence) = result {
      formerEnd[shard] = before
      tell(shard, StoredRecord(sequence: sequence, bytes: bytes), from: node)
    }
    return result
  }

  /// Reports an append to the observers of valid, void or detached records.
  private func tell(_ shard: Int, _ record: StoredRecord, from node: SimNode) {
    let previous = (try? ClusterCodec.journalRecord(record.bytes))?.previous
    switch chains[shard, default: JournalChain(position: 0, end: 0)]
      .append(record.sequence, previous: previous)
    {
    case .counts: for look in observers.appended { look(node, shard, record) }
    case .void: world.count("store.void records")
    case .gap: for look in observers.appendedBehindGap { look(node, shard, record) }
    }
  }

  func purge(_ shard: Int, through asked: UInt64) {
    let sequence = tamper.purgesThrough(asked)
    store.purge(shard, through: sequence)
    for look in observers.purged { look(shard, sequence) }
  }

  // MARK: Buckets

  private static let raceWindow = Span.milliseconds(300)

  func put(
    _ bucket: String, _ key: String, _ value: [UInt8]?, expecting: UInt64?, from node: SimNode
  ) -> AppendResult {
    if tamper.forgetsPut(bucket, key) {
      return .appended(sequence: (store.get(bucket, key)?.revision ?? 0) + 1)
    }
    var condition = tamper.bucketExpectationIgnored(bucket) ? nil : expecting
    let place = "\(bucket) \(key)"
    var raced = false
    if let last = lastPuts[place], let expected = condition, expected == last.former,
      world.now < last.at + Self.raceWindow, random.chance(faults.putRaces)
    {
      world.count("fault.racing put taken")
      for look in observers.raced { look(bucket, key) }
      condition = nil
      raced = true
    }
    let former = store.get(bucket, key)?.revision ?? 0
    let result = store.put(bucket, key, value, expecting: condition)
    if case .appended(let revision) = result {
      lastPuts[place] = (former, world.now)
      tell(bucket, KeyValueEntry(key: key, value: value, revision: revision))
      let taken = BucketPut(
        node: node, bucket: bucket, key: key, expected: expecting, isRemoval: value == nil,
        raced: raced)
      for look in observers.put { look(taken) }
    }
    return result
  }

  /// A live node gave up a write that was stored with this revision.
  func gaveUp(_ node: SimNode, _ bucket: String, _ key: String, _ revision: UInt64) {
    guard store.get(bucket, key)?.revision == revision else { return }
    for look in observers.unconfirmed { look(node, bucket, key) }
  }

  // MARK: Jobs

  func addJob(lane: String, id: String, _ bytes: [UInt8], from node: SimNode) -> AppendResult {
    let (result, isNew) = work.add(lane: lane, id: tamper.changesJobID(id), bytes)
    // Observers are called before any gateway can get the job.
    if isNew { for look in observers.jobAdded { look(node, bytes) } }
    work.handOut()
    return result
  }

  /// Whether a fault happens now, which is counted.
  func strikes(_ fault: String, _ probability: Double) -> Bool {
    guard random.chance(probability) else { return false }
    world.count("fault.\(fault)")
    return true
  }

  // MARK: Watches

  /// Starts a watch: it gets the entries that it has not seen, and then all changes.
  func begin(_ watch: SimWatch, deletions: Bool) {
    watches.removeAll { $0 === watch }
    watches.append(watch)
    let entries = store.entries(
      watch.bucket, behind: watch.lastRevision, deletions: deletions, watch.filter.matches)
    if !entries.isEmpty { watch.link.reply { for entry in entries { watch.receive(entry) } } }
  }

  func end(_ watch: SimWatch) { watches.removeAll { $0 === watch } }

  func forget(watchesOf link: SimLink) { watches.removeAll { $0.link === link } }

  func tell(_ bucket: String, _ entry: KeyValueEntry) {
    for look in observers.written { look(bucket, entry) }
    for watch in watches where watch.bucket == bucket && watch.filter.matches(entry.key) {
      watch.link.reply { watch.receive(entry) }
    }
  }
}

final class SimWatch: @unchecked Sendable {
  let link: SimLink
  let bucket: String
  let filter: SubjectFilter
  private(set) var lastRevision: UInt64 = 0
  private var handler: ((KeyValueEntry) -> Void)?

  init(
    _ link: SimLink, _ bucket: String, _ filter: String,
    handler: @escaping (KeyValueEntry) -> Void
  ) {
    self.link = link
    self.bucket = bucket
    self.filter = SubjectFilter(filter)
    self.handler = handler
  }

  var isCancelled: Bool { handler == nil }

  func receive(_ entry: KeyValueEntry) {
    guard entry.revision > lastRevision else { return }
    lastRevision = entry.revision
    handler?(entry)
  }

  func cancel() {
    handler = nil
    link.nats.end(self)
  }
}
