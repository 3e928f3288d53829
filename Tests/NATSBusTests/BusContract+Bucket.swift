import CallBus
import NATSBus
import Testing

extension BusContract {
  func comparesAndSets() async throws {
    let bucket = try await bus.openBucket("cas", BucketOptions())
    let elsewhere = try await other.openBucket("cas", BucketOptions())
    #expect(try await bucket.get("a.b") == nil)
    let first = try await put(bucket, "a.b", [1], expecting: 0)
    #expect(
      try await elsewhere.get("a.b") == KeyValueEntry(key: "a.b", value: [1], revision: first))
    #expect(await elsewhere.put("a.b", [2], expecting: 0) == .refused)
    #expect(await elsewhere.put("a.b", [2], expecting: first + 7) == .refused)
    let second = try await put(elsewhere, "a.b", [2], expecting: first)
    #expect(await bucket.put("a.b", [3], expecting: first) == .refused)
    let third = try await put(bucket, "a.b", [3], expecting: nil)
    #expect(first < second && second < third)
    #expect(try await elsewhere.get("a.b")?.value == [3])
  }

  func deletesAndCreatesAgain() async throws {
    let bucket = try await bus.openBucket("deletions", BucketOptions())
    let first = try await put(bucket, "k", [1], expecting: 0)
    try await delete(bucket, "k")
    #expect(try await bucket.get("k") == nil)
    #expect(try await bucket.entries(matching: ">").isEmpty)
    #expect(await bucket.put("k", [2], expecting: first) == .refused)
    let again = try await put(bucket, "k", [2], expecting: 0)
    #expect(try await bucket.get("k") == KeyValueEntry(key: "k", value: [2], revision: again))
    #expect(await bucket.put("k", [3], expecting: 0) == .refused)
  }

  func listsEntriesByFilter() async throws {
    let bucket = try await bus.openBucket("lists", BucketOptions())
    #expect(try await bucket.entries(matching: ">").isEmpty)
    for user in 0..<200 {
      try await put(bucket, "\(user % 4).app.u\(user)", [UInt8(user)], expecting: nil)
    }
    try await delete(bucket, "1.app.u1")
    let all = try await bucket.entries(matching: ">")
    #expect(all.count == 199)
    let some = try await bucket.entries(matching: "1.>")
    #expect(
      Set(some.map(\.key))
        == Set((0..<200).filter { $0 % 4 == 1 && $0 != 1 }.map { "1.app.u\($0)" }))
    for entry in some { #expect(entry.key == "1.app.u\(entry.value?.first ?? 0)") }
    #expect(try await bucket.entries(matching: "1.*.u5").map(\.key) == ["1.app.u5"])
  }

  /// A listing does not wait for a key that is removed meanwhile.
  func listsAmidDeletions() async throws {
    let bucket = try await bus.openBucket("amid", BucketOptions())
    let elsewhere = try await other.openBucket("amid", BucketOptions())
    var kept: Set<String> = []
    for round in UInt8(0)..<30 {
      try await put(elsewhere, "going", [round], expecting: 0)
      if round % 2 == 0 {
        try await put(elsewhere, "kept.\(round)", [round], expecting: 0)
        kept.insert("kept.\(round)")
      }
      async let deletion = elsewhere.delete("going")
      let keys = Set(try await bucket.entries(matching: ">").map(\.key))
      #expect(keys.isSuperset(of: kept))
      _ = try await revision(deletion)
    }
  }

  func watchesWhatIsThereAndWhatChanges() async throws {
    let bucket = try await bus.openBucket("watched", BucketOptions())
    let elsewhere = try await other.openBucket("watched", BucketOptions())
    for number in UInt8(0)..<5 {
      try await put(elsewhere, "w.\(number)", [number], expecting: nil)
    }
    try await put(elsewhere, "other", [0], expecting: nil)
    let seen = Inbox<KeyValueEntry>(capacity: 1000)
    let watch = try await bucket.watch("w.>") { seen.offer($0) }
    #expect(await collect(5, from: seen).map(\.key) == ["w.0", "w.1", "w.2", "w.3", "w.4"])
    // A watch that lags may not hear of a deletion, of which nothing stays; one that keeps up does.
    var heardDeletion = false
    for round in UInt8(10)..<110 where !heardDeletion {
      let changed = try await put(elsewhere, "w.2", [round], expecting: nil)
      let deleted = try await delete(elsewhere, "w.3")
      try await put(elsewhere, "other", [round], expecting: nil)
      let created = try await put(elsewhere, "w.3", [round], expecting: 0)
      // A change of another key may come later, where the consumer had skipped it.
      let changes = await collect(until: [changed, created], from: seen)
      let deletion = KeyValueEntry(key: "w.3", value: nil, revision: deleted)
      heardDeletion = changes.contains(deletion)
      #expect(
        changes.filter { $0 != deletion }.sorted { $0.revision < $1.revision } == [
          KeyValueEntry(key: "w.2", value: [round], revision: changed),
          KeyValueEntry(key: "w.3", value: [round], revision: created),
        ])
      let ofOne = changes.filter { $0.key == "w.3" }.map(\.revision)
      #expect(ofOne == ofOne.sorted())
    }
    #expect(heardDeletion)
    watch.cancel()
    try await put(elsewhere, "w.9", [100], expecting: nil)
    try await settle(bus)
    #expect(seen.depth == 0)
  }

  /// Keys that come and go do not fill the store.
  func keepsNothingOfDeletions() async throws {
    let bucket = try await bus.openBucket("coming", BucketOptions())
    let kept = try await put(bucket, "kept", [1], expecting: 0)
    for number in 0..<100 {
      try await put(bucket, "k.\(number)", [2], expecting: 0)
      try await delete(bucket, "k.\(number)")
    }
    // Removals run behind the deletions.
    var held = try await bucket.statistics()
    while held.messages != 1 { held = try await bucket.statistics() }
    #expect(try await bucket.get("kept")?.revision == kept)
    #expect(try await bucket.entries(matching: ">").map(\.key) == ["kept"])
    try await put(bucket, "k.7", [7], expecting: 0)
    #expect(try await bucket.get("k.7")?.value == [7])
    // A deletion, and at once a new value: the removal does not take that along.
    async let deletion = bucket.delete("k.7")
    async let value = bucket.put("k.7", [8], expecting: nil)
    let order = (try await revision(deletion), try await revision(value))
    try await settle(bus)
    let last = try await bucket.get("k.7")?.value
    #expect(last == (order.0 < order.1 ? [8] : nil))
  }

  @discardableResult
  func put(
    _ bucket: some KeyValueBucket, _ key: String, _ value: [UInt8], expecting: UInt64?
  ) async throws -> UInt64 {
    try await revision(await bucket.put(key, value, expecting: expecting))
  }

  @discardableResult
  func delete(_ bucket: some KeyValueBucket, _ key: String) async throws -> UInt64 {
    try await revision(await bucket.delete(key))
  }

  func revision(_ result: AppendResult) async throws -> UInt64 {
    guard case .appended(let revision) = result else {
      throw BusError.failed("not written: \(result)")
    }
    return revision
  }
}
