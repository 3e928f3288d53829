import CallCore
import Testing

/// An operator may set limits: a refusal names the one in force.
@Suite struct ConfiguredLimitTests {
  private func sentence(_ reply: Reply?) -> String? {
    guard case .error(let error)? = reply else { return nil }
    return error.message
  }

  @Test(arguments: [
    (1, "At most 1 call a minute from one caller to one callee."),
    (3, "At most 3 calls a minute from one caller to one callee."),
  ])
  func callsPerPairAndMinute(limit: Int, expected: String) {
    var limits = CallLimits()
    limits.callsPerPairPerMinute = limit
    var bench = Bench(limits: limits)
    bench.attach("b1")
    for number in 0..<limit {
      #expect(bench.place(CallID(high: 1, low: UInt64(number)))?.error == nil)
    }
    let refused = bench.place(CallID(high: 1, low: 99))
    #expect(refused?.error == .tooManyCalls)
    #expect(sentence(refused) == expected)
  }

  /// Whole seconds are what a caller can say.
  @Test(arguments: [(1, true), (2, false), (60, false), (61, true)] as [(UInt32, Bool)])
  func ringTimeout(seconds: UInt32, isRefused: Bool) {
    var limits = CallLimits()
    limits.ringTimeoutMinimum = .milliseconds(1500)
    limits.ringTimeoutMaximum = .milliseconds(60_900)
    var bench = Bench(limits: limits)
    bench.attach("b1")
    let reply = bench.place(seconds: seconds)
    #expect(reply?.error == (isRefused ? .invalidRingTimeout : nil))
    #expect(sentence(reply) == (isRefused ? "The ring timeout is 2 to 60 seconds." : nil))
  }

  @Test func headersAndDescriptions() {
    var limits = CallLimits()
    limits.headersCount = 1
    limits.headersBytes = 20
    limits.descriptionBytes = 10
    var bench = Bench(limits: limits)
    bench.attach("b1")
    let long = bench.place(description: String(repeating: "x", count: 11))
    #expect(sentence(long) == "A session description is at most 10 bytes.")
    let header = CustomHeader(name: "n", value: "v")
    let many = bench.say(
      .place(PlaceRequest(call: Bench.callID, headers: [header, header])), user: "alice",
      device: "alice1")
    #expect(sentence(many) == "At most 1 header, 20 bytes in all.")
  }

  @Test func signalsWaiting() {
    var limits = CallLimits()
    limits.signalsWaiting = 2
    var bench = Bench(limits: limits)
    bench.attach("b1")
    bench.place()
    for _ in 0..<2 {
      #expect(bench.caller(.call(Bench.callID, .signal(.candidate, body: "c"))) == .done)
    }
    let refused = bench.caller(.call(Bench.callID, .signal(.candidate, body: "c")))
    #expect(
      sentence(refused)
        == "At most 2 descriptions and candidates, 65536 bytes in all, wait for one device.")
  }

  /// While a call rings, either side may send another description as large as the first.
  @Test(arguments: [1000, 65_536, 70_000, 98_304]) func theLargestDescriptionMayWait(bytes: Int) {
    var limits = CallLimits()
    limits.descriptionBytes = bytes
    var bench = Bench(limits: limits)
    bench.attach("b1")
    let text = String(repeating: "d", count: bytes)
    #expect(bench.place(description: text)?.error == nil)
    let later = Command.Body.call(Bench.callID, .signal(.description, body: text))
    #expect(bench.caller(later) == .done)
    #expect(bench.say(later, device: "b1") == .done)
    #expect(bench.signals("b1").map(\.body) == [text])
    #expect(bench.say(.call(Bench.callID, .answer(description: text)), device: "b1")?.won == true)
    #expect(bench.answers().first?.signals.map(\.body) == [text])
  }

  @Test func liveCallsOfOneDevice() {
    var limits = CallLimits()
    #expect(
      limits.refusalToPlace(liveCallsPlaced: 5)?.message == "At most 5 live calls on one device.")
    limits.liveCallsPerDevice = 1
    #expect(limits.refusalToPlace(liveCallsPlaced: 0) == nil)
    #expect(
      limits.refusalToPlace(liveCallsPlaced: 1)?.message == "At most 1 live call on one device.")
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
}
