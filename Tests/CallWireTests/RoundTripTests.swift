import CallCore
import CallWire
import Testing

/// A value that goes out comes in again the same, in either encoding.
@Suite struct RoundTripTests {
  static let frames = 10_000

  @Test(arguments: DeviceCodec.allCases) func everyKindOfClientFrame(codec: DeviceCodec) throws {
    for kind in 0..<Generator.clientKinds {
      for seed in 0..<20 {
        var generator = Generator(seed: UInt64(seed))
        try check(generator.clientFrame(kind), codec, "kind \(kind), seed \(seed)")
      }
    }
  }

  @Test(arguments: DeviceCodec.allCases) func randomClientFrames(codec: DeviceCodec) throws {
    var generator = Generator(seed: 1)
    for index in 0..<Self.frames { try check(generator.clientFrame(), codec, "frame \(index)") }
  }

  @Test(arguments: DeviceCodec.allCases) func everyKindOfServerFrame(codec: DeviceCodec) throws {
    for kind in 0..<Generator.serverKinds {
      for seed in 0..<20 {
        var generator = Generator(seed: UInt64(seed))
        try check(generator.serverFrame(kind), codec, "kind \(kind), seed \(seed)")
      }
    }
  }

  @Test(arguments: DeviceCodec.allCases) func randomServerFrames(codec: DeviceCodec) throws {
    var generator = Generator(seed: 2)
    for index in 0..<Self.frames { try check(generator.serverFrame(), codec, "frame \(index)") }
  }

  @Test func clusterMessages() throws {
    var generator = Generator(seed: 3)
    for kind in 0..<Generator.commandKinds {
      let batch = CommandBatch(edge: 7, commands: [generator.command(edge: 7, kind)])
      #expect(try ClusterCodec.commandBatch(ClusterCodec.encode(batch)) == batch)
    }
    for _ in 0..<Self.frames {
      let commands = generator.commandBatch()
      try #require(try ClusterCodec.commandBatch(ClusterCodec.encode(commands)) == commands)
      let items = generator.edgeBatch()
      try #require(try ClusterCodec.edgeBatch(ClusterCodec.encode(items)) == items)
    }
  }

  @Test func whatNodesSayOfThemselves() throws {
    var generator = Generator(seed: 4)
    for _ in 0..<1000 {
      let heartbeat = generator.heartbeat()
      try #require(try ClusterCodec.heartbeat(ClusterCodec.encode(heartbeat)) == heartbeat)
      let lease = generator.lease()
      try #require(try ClusterCodec.lease(ClusterCodec.encode(lease)) == lease)
      let request = AnnounceRequest(
        shard: UInt32(truncatingIfNeeded: generator.next()), epoch: generator.next(),
        number: generator.number(), nearer: generator.chance(50) ? generator.text(20) : "")
      try #require(try ClusterCodec.announceRequest(ClusterCodec.encode(request)) == request)
      let done = AnnounceDone(
        shard: request.shard, epoch: request.epoch, edge: generator.next(),
        sessions: generator.chance(50) ? Int(generator.number() >> 12) : nil,
        number: generator.number())
      try #require(try ClusterCodec.announceDone(ClusterCodec.encode(done)) == done)
    }
  }

  @Test func whatShardsWrite() throws {
    var generator = Generator(seed: 5)
    for kind in 0..<Generator.changeKinds {
      let checkpoint = Checkpoint(sequence: 1, epoch: 2, entries: [generator.entry(kind)])
      #expect(try ClusterCodec.checkpoint(ClusterCodec.encode(checkpoint)) == checkpoint)
    }
    for _ in 0..<Self.frames {
      let record = generator.journalRecord()
      try #require(try ClusterCodec.journalRecord(ClusterCodec.encode(record)) == record)
      let checkpoint = generator.checkpoint()
      try #require(try ClusterCodec.checkpoint(ClusterCodec.encode(checkpoint)) == checkpoint)
      let registration = generator.storedRegistration()
      try #require(try ClusterCodec.registration(ClusterCodec.encode(registration)) == registration)
      var rules = StoredRules(user: registration.user, rules: generator.userRules())
      if generator.chance(50) { rules.rules.name = generator.text(10) }
      try #require(try ClusterCodec.rules(ClusterCodec.encode(rules)) == rules)
    }
  }

  @Test func pushJobsAndKeys() throws {
    var generator = Generator(seed: 7)
    for _ in 0..<Self.frames {
      let job = generator.pushJob()
      try #require(try ClusterCodec.pushJob(ClusterCodec.encode(job)) == job)
    }
    for count in 1...PushKeys.keysMax {
      let keys = generator.pushKeys(count)
      #expect(try ClusterCodec.pushKeys(ClusterCodec.encode(keys)) == keys)
    }
  }

  @Test func callRecords() throws {
    var generator = Generator(seed: 8)
    for _ in 0..<Self.frames {
      let records = generator.list(4) { $0.callRecord() }
      let batch = try ClusterCodec.callRecords(ClusterCodec.encode(records))
      try #require(batch == CallRecordBatch(records: records))
    }
  }

  @Test func eventsAndWebhooks() throws {
    var generator = Generator(seed: 9)
    for _ in 0..<Self.frames {
      let events = generator.list(4) { $0.appEvent() }
      try #require(
        try ClusterCodec.appEvents(ClusterCodec.encode(events)) == AppEventBatch(events: events))
      let progress = generator.webhookProgress()
      try #require(try ClusterCodec.webhookProgress(ClusterCodec.encode(progress)) == progress)
      let letter = DeadLetter(
        event: generator.appEvent(), endpoint: generator.text(8), host: generator.text(8),
        attempts: UInt32(truncatingIfNeeded: generator.next()), reason: generator.text(12),
        at: generator.microseconds())
      try #require(try ClusterCodec.deadLetter(ClusterCodec.encode(letter)) == letter)
    }
  }

  /// Larger than the arena's first chunk, and than any limit of a device's frame.
  @Test func aLargeCheckpoint() throws {
    var generator = Generator(seed: 6)
    let entries = (0..<20_000).map { _ in generator.entry() }
    let checkpoint = Checkpoint(sequence: .max, epoch: .max, entries: entries)
    #expect(try ClusterCodec.checkpoint(ClusterCodec.encode(checkpoint)) == checkpoint)
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

  private func check(_ frame: ClientFrame, _ codec: DeviceCodec, _ name: String) throws {
    try #require(try codec.decodeClient(codec.encode(frame)) == frame, "\(name): \(frame)")
  }

  private func check(_ frame: ServerFrame, _ codec: DeviceCodec, _ name: String) throws {
    try #require(try codec.decodeServer(codec.encode(frame)) == frame, "\(name): \(frame)")
  }
}

@Suite struct Base64Tests {
  @Test(
    arguments: [
      ([], ""), ([0x66], "Zg=="), ([0x66, 0x6f], "Zm8="), ([0x66, 0x6f, 0x6f], "Zm9v"),
      ([255, 239, 0], "/+8A"),
    ] as [([UInt8], String)])
  func writesAndReads(bytes: [UInt8], text: String) {
    #expect(Base64.text(bytes) == text)
    #expect(Base64.bytes(text) == bytes)
    #expect(Base64.bytes(Base64URL.text(bytes)) == bytes)
  }

  @Test(arguments: ["Zg=", "====", "Z===", "Zm9*", "Zm=v", "Z"])
  func refusesWhatIsNone(text: String) {
    #expect(Base64.bytes(text) == nil)
  }
}
