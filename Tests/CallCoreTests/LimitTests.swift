import CallCore
import Testing

/// Each limit is filled, and says so with its own code. An operator may set it: the refusal names the one in force.
@Suite struct LimitTests {
  static let small = CallLimits.with {
    $0.headersCount = 1
    $0.headersBytes = 20
    $0.descriptionBytes = 10
  }

  private func id(_ low: Int) -> CallID { CallID(high: 1, low: UInt64(low)) }

  @Test(
    arguments: [
      (nil, "At most 10 calls a minute from one caller to one callee."),
      (1, "At most 1 call a minute from one caller to one callee."),
      (3, "At most 3 calls a minute from one caller to one callee."),
    ] as [(Int?, String)])
  func callsPerPairAndMinute(limit: Int?, sentence: String) {
    var limits = CallLimits()
    if let limit { limits.callsPerPairPerMinute = limit }
    var bench = Bench.attached("b1", limits: limits)
    for number in 0..<limits.callsPerPairPerMinute {
      #expect(bench.place(id(number))?.error == nil)
      bench.caller(.call(id(number), .cancel))
    }
    let refused = bench.place(id(99))
    #expect(refused?.error == .tooManyCalls && refused?.message == sentence)
    #expect(bench.place(id(0))?.error == nil, "a repeat is not a new call")
    #expect(bench.place(id(98), user: "carol", device: "c1")?.error == nil)
    bench.pass(.seconds(61))
    #expect(bench.place(id(97))?.error == nil)
  }

  @Test func liveCallsToOneDevice() {
    var bench = Bench.attached("b1")
    for number in 0..<5 { bench.place(id(number), user: "u\(number)", device: "d") }
    #expect(bench.invites("b1").count == 5)
    #expect(bench.place(id(9), user: "u9", device: "d")?.state?.reason == .busy)
  }

  @Test func liveCallsPlacedByOneDevice() {
    let sentence = CallLimits().refusalToPlace(liveCallsPlaced: 5)?.message
    #expect(sentence == "At most 5 live calls on one device.")
    let one = CallLimits.with { $0.liveCallsPerDevice = 1 }
    #expect(one.refusalToPlace(liveCallsPlaced: 0) == nil)
    #expect(one.refusalToPlace(liveCallsPlaced: 1)?.message == "At most 1 live call on one device.")
  }

  @Test(
    arguments: [
      (CallLimits(), "At most 32 headers, 4096 bytes in all."),
      (small, "At most 1 header, 20 bytes in all."),
    ])
  func headers(limits: CallLimits, sentence: String) {
    var bench = Bench.attached("b1", limits: limits)
    func place(_ headers: [CustomHeader]) -> Reply? {
      bench.caller(.place(PlaceRequest(call: Bench.callID, headers: headers)))
    }
    let many = (0...limits.headersCount).map { CustomHeader(name: "n\($0)", value: "v") }
    let long = CustomHeader(name: "n", value: String(repeating: "v", count: limits.headersBytes))
    for headers in [many, [long]] {
      let refused = place(headers)
      #expect(refused?.error == .headersTooLarge && refused?.message == sentence)
    }
    #expect(place(Array(many.dropLast()))?.error == nil)
  }

  @Test(
    arguments: [
      (CallLimits(), "A session description is at most 65536 bytes."),
      (small, "A session description is at most 10 bytes."),
    ])
  func descriptions(limits: CallLimits, sentence: String) {
    var bench = Bench.attached("b1", limits: limits)
    let text = String(repeating: "x", count: limits.descriptionBytes)
    let refused = bench.place(description: text + "x")
    #expect(refused?.error == .descriptionTooLarge && refused?.message == sentence)
    #expect(bench.place(description: text)?.error == nil)
  }

  /// Whole seconds are what a caller can say.
  @Test(
    arguments: [
      (nil, [4, 181, .max], [5, 180], "The ring timeout is 5 to 180 seconds."),
      (1500...60_900, [1, 61], [2, 60], "The ring timeout is 2 to 60 seconds."),
    ] as [(ClosedRange<Int64>?, [UInt32], [UInt32], String)])
  func ringTimeout(
    milliseconds: ClosedRange<Int64>?, refused: [UInt32], taken: [UInt32], sentence: String
  ) {
    var limits = CallLimits()
    if let milliseconds {
      limits.ringTimeoutMinimum = .milliseconds(milliseconds.lowerBound)
      limits.ringTimeoutMaximum = .milliseconds(milliseconds.upperBound)
    }
    for seconds in refused + taken {
      var bench = Bench.attached("b1", limits: limits)
      let reply = bench.place(seconds: seconds)
      #expect(reply?.error == (taken.contains(seconds) ? nil : .invalidRingTimeout))
      #expect(reply?.message == (taken.contains(seconds) ? nil : sentence))
    }
  }

  /// As many candidates of so many bytes wait for each side.
  @Test(arguments: [(128, 1, 128), (128, 16_384, 4), (2, 1, 2)])
  func signalsWaiting(limit: Int, bytes: Int, count: Int) {
    var bench = Bench.ringing("b1", limits: .with { $0.signalsWaiting = limit })
    let candidate = CallVerb.signal(.candidate, body: String(repeating: "c", count: bytes))
    for _ in 0..<count {
      #expect(bench.caller(candidate) == .done)
      #expect(bench.say(candidate, "b1") == .done)
    }
    let more = CallVerb.signal(.candidate, body: "c")
    for refused in [bench.caller(more), bench.say(more, "b1")] {
      #expect(refused?.error == .tooManySignals)
      #expect(
        refused?.message == "At most \(limit) descriptions and candidates, 65536 bytes in all, "
          + "wait for one device.")
    }
  }

  /// While a call rings, either side may send another description as large as the first.
  @Test(arguments: [1000, 65_536, 70_000, 98_304]) func theLargestDescriptionMayWait(bytes: Int) {
    var bench = Bench.attached("b1", limits: .with { $0.descriptionBytes = bytes })
    let text = String(repeating: "d", count: bytes)
    #expect(bench.place(description: text)?.error == nil)
    let later = CallVerb.signal(.description, body: text)
    #expect(bench.caller(later) == .done)
    #expect(bench.say(later, "b1") == .done)
    #expect(bench.signals("b1").map(\.body) == [text])
    #expect(bench.say(.answer(description: text), "b1")?.won == true)
    #expect(bench.answers().first?.signals.map(\.body) == [text])
  }

  @Test func registrationsWaiting() {
    var bench = Bench(limits: .with { $0.registrationsWaiting = 2 })
    let register = Command.Body.register(RegistrationRequest())
    for device in ["d0", "d1"] { bench.say(register, device: device) }
    let stores = bench.take().compactMap {
      if case .store(_, let token) = $0 { token } else { nil as UInt64? }
    }
    #expect(stores.count == 2)
    #expect(bench.say(register, device: "d2")?.error == .tryAgain)
    bench.run { $0.registrationStored(token: stores[0], ok: true, now: $1, into: &$2) }
    _ = bench.take()
    #expect(bench.say(register, device: "d2")?.error == nil)
  }

  @Test func callsPerShard() {
    var bench = Bench.attached("b1", limits: .with { $0.callsPerShard = 2 })
    #expect((1...3).map { bench.place(id($0))?.error } == [nil, nil, .overloaded])
  }

  /// The table's sentence for a code stays true whatever is set.
  @Test(arguments: [
    CallError.Code.rateLimited, .tooManyCalls, .tooManyLiveCalls, .headersTooLarge,
    .descriptionTooLarge, .informationTooLarge, .pushDataTooLarge, .tooManySignals,
    .invalidRingTimeout,
  ])
  func theTableNamesNoLimitThatMayBeSet(code: CallError.Code) {
    let digits = code.sentence.filter(\.isNumber)
    #expect(digits == "")
  }

  // MARK: Registrations

  @Test func aFailedStoreIsNotARegistration() {
    var bench = Bench.attached("b1")
    bench.say(.register(RegistrationRequest()), device: "b1")
    _ = bench.take()
    bench.run { $0.registrationStored(token: 1, ok: false, now: $1, into: &$2) }
    #expect(bench.shard.counts.registrations == 0)
    #expect(bench.firstReply()?.error == .tryAgain)
  }

  @Test func registrationsExpire() {
    let user = UserKey(app: Bench.app, user: "bob")
    var shard = ShardMachine(shard: 0, epoch: 1, limits: CallLimits())
    let day: Int64 = 86_400_000_000
    func registration(_ device: DeviceID, seenOn seen: Int64) -> Registration {
      Registration(
        user: user, device: device, request: RegistrationRequest(),
        registeredAt: Timestamp(microseconds: 9 * day), seenAt: Timestamp(microseconds: seen * day))
    }
    shard.restore([registration("old", seenOn: 9), registration("new", seenOn: 11)])
    var outcome = Outcome()
    shard.begin(now: Timestamp(microseconds: 100 * day), into: &outcome)
    #expect(outcome.effects == [.remove(user, "old", token: 1)])
  }
}
