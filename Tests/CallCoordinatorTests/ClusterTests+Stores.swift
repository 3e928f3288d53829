import CallBus
import CallCoordinator
import CallCore
import CallTelemetry
import CallWire
import Testing

extension ClusterTests {
  @Test func whatAKilledOwnerLeftOfACheckpointIsRemoved() async throws {
    try await ClusterBench.run(shards: 1) { bench in
      let bucket = try await bench.checkpoints()
      _ = await bucket.put("0.0.1.0", [1], expecting: nil)
      bench.start("a") { $0.checkpointEveryRecords = 3 }
      try await bench.settled(["a"])
      _ = try await bench.ring(8)
      try await eventually("the chunk is gone") { try await bucket.get("0.0.1.0") == nil }
    }
  }

  /// A claim that was held up reads on behind what a later owner wrote, and finds that one's last record
  /// under its checkpoint: its own term is over before it began.
  @Test func aClaimThatALaterOwnersCheckpointOvertookIsGivenUp() async throws {
    try await ClusterBench.run(shards: 1) { bench in
      let checkpoints = try await bench.checkpoints()
      // Everything before this record was purged.
      let record = JournalRecord(
        epoch: 5, number: 3, writer: "later", at: bench.clock.now(), entries: [], previous: 7)
      let once = Once()
      let journal = bench.journal
      bench.bus.setFaults { faults in
        faults.onAppend = { _, _ in
          guard once.first() else { return nil }
          journal.append(shard: 0, expecting: 0, ClusterCodec.encode(record)) { result in
            guard case .appended(let sequence) = result else { return }
            let checkpoint = Checkpoint(sequence: sequence, epoch: 5, entries: [])
            let bytes = ClusterCodec.encode(checkpoint)
            let head = CheckpointStore.Head(
              epoch: 5, sequence: sequence, bytes: bytes.count, chunks: 1)
            checkpoints.put("0.5.\(sequence).0", bytes, expecting: nil) { _ in }
            checkpoints.put("0.head", Array(head.text.utf8), expecting: nil) { _ in }
          }
          return .unknown(stored: false)
        }
      }
      bench.start("a")
      try await bench.settled(["a"])
      let records = try await bench.journal.records(shard: 0, from: 1, limit: 100)
      let epochs = try records.map { try ClusterCodec.journalRecord($0.bytes).epoch }
      #expect(epochs.first == 5 && epochs.count > 1)
      #expect(epochs == epochs.sorted(), "\(epochs)")
    }
  }

  /// Lease and journal are lost, and an operator gave up what was in them: the checkpoint's epoch counts.
  @Test func aShardOfWhichOnlyTheCheckpointIsLeftIsTakenAtOnce() async throws {
    try await ClusterBench.run(shards: 1) { bench in
      let checkpoints = try await bench.checkpoints()
      let left = Checkpoint(sequence: 7, epoch: 3000, entries: [])
      _ = try await CheckpointStore(bucket: checkpoints).write(left, shard: 0)
      checkpoints.put("0.accept", Array("7".utf8), expecting: nil) { _ in }
      bench.start("a")
      try await bench.settled(["a"])
      let first = try #require(try await bench.journal.records(shard: 0, from: 1, limit: 1).first)
      #expect(try ClusterCodec.journalRecord(first.bytes).epoch == 3001)
    }
  }

  /// The leases are older than what the nodes have seen of them, or gone. The first claim is refused, and reads what
  /// the store has.
  @Test(arguments: [false, true])
  func aLeaseThatWasRestoredFromABackupIsReadAgain(isThere: Bool) async throws {
    try await ClusterBench.run(shards: 1) { bench in
      // The revisions that the nodes see are higher than those after the restore.
      for _ in 0..<10 { _ = await bench.leases.put("other", [], expecting: nil) }
      for name in ["a", "b"] { bench.start(name, mortal) }
      try await bench.settled(["a", "b"])
      let owner = try #require(Placement.desired(shard: 0, candidates: ["a", "b"]))
      let next = owner == "a" ? "b" : "a"
      try await eventually("both serve") { try await bench.status()[next]?.state == "serving" }
      bench.bus.lose(bucket: bench.subjects.leaseBucket)
      if isThere {
        let lease = Lease(owner: "early", incarnation: 1, epoch: 1, released: true)
        let result = await bench.leases.put("0", ClusterCodec.encode(lease), expecting: 0)
        #expect(result == .appended(sequence: 1))
      }
      try await bench.stop(owner)
      try await bench.settled([next])
    }
  }

  /// The registrations that the next owner knows.
  private func registrations(_ bench: ClusterBench) async throws -> Int {
    try await bench.shards(of: "b").reduce(0) { $0 + $1.registrations }
  }

  private func replaceOwner(_ bench: ClusterBench) async throws {
    await bench.crash("a")
    bench.start("b", mortal)
    try await bench.settled(["b"])
  }

  @inline(never)
  private func register(_ index: Int, _ bench: ClusterBench) async throws {
    let (user, request) = (UserKey.user("r\(index)"), RegistrationRequest(deviceName: "Phone"))
    let reply = try await bench.edge.ask(
      .register(request), from: UInt64(index), user, "phone", to: user)
    #expect(reply.isRegistered)
  }

  @inline(never)
  private func rules(_ request: RulesRequest, _ index: Int, _ bench: ClusterBench) async throws
    -> UserRules
  {
    let user = UserKey.user("r\(index)")
    let reply = try await bench.edge.ask(
      .rules(request), from: UInt64(index), user, "phone", to: user)
    guard case .rules(let rules) = reply else { throw Timeout(what: "rules: \(reply)") }
    return rules
  }

  @Test func registrationsAndRulesAreFoundByTheNextOwner() async throws {
    try await ClusterBench.run(["a"]) { bench in
      let bucket = try await bench.bus.openBucket(
        bench.subjects.registrationBucket, BucketOptions())
      func forward(_ index: Int) -> UserRules.Forward { UserRules.Forward(users: ["f\(index)"]) }
      for index in 0..<8 {
        try await register(index, bench)
        let written = try await rules(.write(UserRules(always: forward(index))), index, bench)
        #expect(written.always == forward(index))
      }
      // A value that cannot be read keeps no shard from its owner.
      bucket.put("rules.0.app.broken", [0xff], expecting: nil) { _ in }
      try await replaceOwner(bench)
      #expect(try await registrations(bench) == 8)
      let reports: [UserReport] = try await bench.ask(
        bench.subjects.adminUser, AdminQuery(app: "app", user: "r3"))
      #expect(reports.first?.found == true)
      #expect(reports.first?.devices?.first?.registeredAtMilliseconds != nil)
      for index in 0..<8 { #expect(try await rules(.read, index, bench).always == forward(index)) }
      // The next owner may replace and remove rules.
      let written = try await rules(.write(UserRules(always: forward(9))), 3, bench)
      #expect(written.always == forward(9))
      #expect(try await rules(.write(UserRules()), 4, bench) == UserRules())
      let user = UserKey.user("r4")
      let key = Subjects.rulesKey(
        shard: ShardHash.shard(of: user, count: bench.shards), app: user.app, user: user.user)
      #expect(try await bucket.get(key) == nil)
    }
  }

  /// The former owner was alive until it was fenced, and may have said that a registration is stored:
  /// also where the lease was released, by one that took it from the living and could not use it.
  @Test(arguments: [false, true])
  func aRegistrationThatIsStoredWhileItsShardIsReadBackIsNotMissed(
    leaseIsReleased: Bool
  ) async throws {
    try await ClusterBench.run(["a"]) { bench in
      let late = UserKey.user("late")
      let shard = ShardHash.shard(of: late, count: bench.shards)
      let bucket = try await bench.bus.openBucket(
        bench.subjects.registrationBucket, BucketOptions())
      let registration = Registration(
        user: late, device: "phone", request: RegistrationRequest(),
        registeredAt: bench.clock.now(),
        seenAt: bench.clock.now())
      let key = Subjects.registrationKey(
        shard: shard, app: late.app, user: late.user, device: "phone")
      await bench.crash("a")
      if leaseIsReleased { try await bench.releaseLeasesInPassing() }
      bench.bus.setFaults { faults in
        faults.onAppend = { written, bytes in
          guard written == shard, let record = try? ClusterCodec.journalRecord(bytes),
            record.number == 0
          else { return nil }
          bucket.put(key, ClusterCodec.encode(registration), expecting: nil) { _ in }
          return nil
        }
      }
      bench.start("b", mortal)
      try await bench.settled(["b"])
      #expect(try await registrations(bench) == 1)
    }
  }
}
