import CallCore
import CallWire
import Testing

/// A value that goes out comes in again the same, in either encoding.
@Suite struct RoundTripTests {
  static let frames = 10_000

  @Test(arguments: DeviceCodec.allCases) func clientFrames(codec: DeviceCodec) throws {
    try everyKind(Generator.clientKinds, 1) { generator, kind in
      try check(generator.clientFrame(kind), codec.encode) { try codec.decodeClient($0) }
    }
  }

  @Test(arguments: DeviceCodec.allCases) func serverFrames(codec: DeviceCodec) throws {
    try everyKind(Generator.serverKinds, 2) { generator, kind in
      try check(generator.serverFrame(kind), codec.encode) { try codec.decodeServer($0) }
    }
  }

  @Test func clusterMessages() throws {
    var generator = Generator(seed: 3)
    for kind in 0..<Generator.commandKinds {
      let batch = CommandBatch(edge: 7, commands: [generator.command(edge: 7, kind)])
      try check(batch, ClusterCodec.encode, ClusterCodec.commandBatch)
    }
    for _ in 0..<Self.frames {
      try check(generator.commandBatch(), ClusterCodec.encode, ClusterCodec.commandBatch)
      try check(generator.edgeBatch(), ClusterCodec.encode, ClusterCodec.edgeBatch)
    }
  }

  @Test func whatNodesSayOfThemselves() throws {
    var generator = Generator(seed: 4)
    for _ in 0..<1000 {
      try check(generator.heartbeat(), ClusterCodec.encode, ClusterCodec.heartbeat)
      try check(generator.lease(), ClusterCodec.encode, ClusterCodec.lease)
      let request = AnnounceRequest(
        shard: UInt32(truncatingIfNeeded: generator.next()), epoch: generator.next(),
        number: generator.number(), nearer: generator.chance(50) ? generator.text(20) : "")
      try check(request, ClusterCodec.encode, ClusterCodec.announceRequest)
      let done = AnnounceDone(
        shard: request.shard, epoch: request.epoch, edge: generator.next(),
        sessions: generator.maybe { Int($0.number() >> 12) }, number: generator.number())
      try check(done, ClusterCodec.encode, ClusterCodec.announceDone)
    }
  }

  @Test func whatShardsWrite() throws {
    var generator = Generator(seed: 5)
    for kind in 0..<Generator.changeKinds {
      let checkpoint = Checkpoint(sequence: 1, epoch: 2, entries: [generator.entry(kind)])
      try check(checkpoint, ClusterCodec.encode, ClusterCodec.checkpoint)
    }
    for _ in 0..<Self.frames {
      try check(generator.journalRecord(), ClusterCodec.encode, ClusterCodec.journalRecord)
      try check(generator.checkpoint(), ClusterCodec.encode, ClusterCodec.checkpoint)
      let registration = generator.storedRegistration()
      try check(registration, ClusterCodec.encode, ClusterCodec.registration)
      var rules = StoredRules(user: registration.user, rules: generator.userRules())
      if generator.chance(50) { rules.rules.name = generator.text(10) }
      try check(rules, ClusterCodec.encode, ClusterCodec.rules)
    }
  }

  @Test func pushJobsAndKeys() throws {
    var generator = Generator(seed: 7)
    for _ in 0..<Self.frames {
      try check(generator.pushJob(), ClusterCodec.encode, ClusterCodec.pushJob)
    }
    for count in 1...PushKeys.keysMax {
      try check(generator.pushKeys(count), ClusterCodec.encode, ClusterCodec.pushKeys)
    }
  }

  @Test func recordsEventsAndWebhooks() throws {
    var generator = Generator(seed: 9)
    for _ in 0..<Self.frames {
      let records = CallRecordBatch(records: generator.list(4) { $0.callRecord() })
      try check(records, { ClusterCodec.encode($0.records) }, ClusterCodec.callRecords)
      let events = AppEventBatch(events: generator.list(4) { $0.appEvent() })
      try check(
        events, { ClusterCodec.encode($0.events.compactMap(\.self)) }, ClusterCodec.appEvents)
      try check(generator.webhookProgress(), ClusterCodec.encode, ClusterCodec.webhookProgress)
      let letter = DeadLetter(
        event: generator.appEvent(), endpoint: generator.text(8), host: generator.text(8),
        attempts: UInt32(truncatingIfNeeded: generator.next()), reason: generator.text(12),
        at: generator.microseconds())
      try check(letter, ClusterCodec.encode, ClusterCodec.deadLetter)
    }
  }

  /// Larger than the arena's first chunk, and than any limit of a device's frame.
  @Test func aLargeCheckpoint() throws {
    var generator = Generator(seed: 6)
    let entries = (0..<20_000).map { _ in generator.entry() }
    let checkpoint = Checkpoint(sequence: .max, epoch: .max, entries: entries)
    try check(checkpoint, ClusterCodec.encode, ClusterCodec.checkpoint)
  }

  @Test func timesThatDoNotFitAreAsFarAsCanBe() throws {
    for codec in DeviceCodec.allCases {
      var state = CallState(call: CallID(high: 1, low: 2), callee: "bob", phase: .ringing)
      state.deadline = .distantFuture
      let frame = ServerFrame.reply(id: 1, .call(state))
      let read = try codec.decodeServer(codec.encode(frame))
      guard case .reply(1, .call(let copy)) = read else { throw Unexpected() }
      #expect(copy.deadline!.milliseconds == Timestamp.distantFuture.milliseconds)
    }
  }

  /// Draws values of each kind, and then of any.
  private func everyKind(
    _ kinds: Int, _ seed: UInt64, _ check: (inout Generator, Int?) throws -> Void
  ) throws {
    for kind in 0..<kinds {
      for seed in 0..<20 as Range<UInt64> {
        var generator = Generator(seed: seed)
        try check(&generator, kind)
      }
    }
    var generator = Generator(seed: seed)
    for _ in 0..<Self.frames { try check(&generator, nil) }
  }

  private func check<Value: Equatable>(
    _ value: Value, _ encode: (Value) -> [UInt8], _ decode: ([UInt8]) throws -> Value
  ) throws {
    try #require(try decode(encode(value)) == value, "\(value)")
  }
}
