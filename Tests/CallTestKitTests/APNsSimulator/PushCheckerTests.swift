import CallTestKit
import CallWire
import Testing

@Suite("R35: what the registered SDK does not allow is a violation")
struct PushCheckerTests {
  /// A dialect of its own: `{"call":"…"}`, `{"end":"…","kind":"…"}`.
  private func read(_ push: APNsPush) -> APNsPushReading {
    let members = strictJSONObject(push.payload) ?? [:]
    if case .text(let id)? = members["call"] { return .call(id: id) }
    if case .text(let id)? = members["end"], case .text(let kind)? = members["kind"] {
      return .end(id: id, kind: kind)
    }
    return .unreadable
  }

  private func checker(takes: Set<String> = []) -> APNsDevices {
    let checker = APNsDevices()
    checker.register(sampleToken.uppercased(), .init(takes: takes, read: read))
    return checker
  }

  private func push(
    _ body: String, id: String = sampleID, token: String = sampleToken, type: APNsPushType = .voip
  ) -> APNsPush {
    APNsPush(
      id: id, token: token, type: type, topic: topic, bundle: bundle, payload: Array(body.utf8),
      expiration: 0, at: noon, connection: 1)
  }

  private let call = #"{"call":"c1"}"#
  private let end = #"{"end":"c1","kind":"missed"}"#

  @Test func aCallMayComeTwiceWithOneIDOnly() {
    let checker = checker()
    #expect(checker.check(push(call)) == [])
    #expect(checker.check(push(call)) == [])
    #expect(checker.check(push(call, id: "other")) == [.doubledCall])
    #expect(checker.check(push(#"{"call":"c2"}"#, id: "other")) == [])
  }

  @Test func anEndIsForThoseWhoAskedForIt() {
    let refusing = checker()
    _ = refusing.check(push(call))
    #expect(refusing.check(push(end)) == [.unwantedEndPush])
    let taking = checker(takes: ["missed"])
    _ = taking.check(push(call))
    #expect(taking.check(push(end)) == [])
    #expect(taking.check(push(#"{"end":"c1","kind":"cancel"}"#)) == [.unwantedEndPush])
  }

  @Test func anEndNeedsACall() {
    let checker = checker(takes: ["missed"])
    #expect(checker.check(push(end)) == [.endWithoutCall])
    // Unless others judge that.
    let lenient = APNsDevices(endsNeedCalls: false)
    lenient.register(sampleToken, .init(takes: ["missed"], read: read))
    #expect(lenient.check(push(end)) == [])
    #expect(lenient.check(push(#"{"end":"c1","kind":"cancel"}"#)) == [.unwantedEndPush])
  }

  @Test func whatCannotBeReadEndsTheAppAndOthersAreNotJudged() {
    let checker = checker()
    #expect(checker.check(push("{}")) == [.unreadablePush])
    #expect(checker.check(push("{}", token: "aa")) == [])
    #expect(checker.check(push("{}", type: .alert)) == [])
  }

  @Test func registeringAgainChangesWhatCounts() {
    let checker = checker(takes: ["missed"])
    _ = checker.check(push(call))
    checker.register(sampleToken, .init(takes: [], read: read))
    #expect(checker.check(push(end)) == [.unwantedEndPush])
  }

  @Test func theOldestCallsAreForgotten() {
    let checker = checker(takes: ["missed"])
    for number in 0...APNsDevices.callsPerDeviceMax {
      #expect(checker.check(push(#"{"call":"c\#(number)"}"#, id: "\(number)")) == [])
    }
    #expect(checker.check(push(#"{"end":"c0","kind":"missed"}"#)) == [.endWithoutCall])
    #expect(checker.check(push(end)) == [])
  }
}
