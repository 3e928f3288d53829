import CallCore
import CallEdge
import CallNodeKit
import CallWire
import Testing

/// Sizes and times that an operator sets: no flow meets a smaller limit later.
@Suite struct SizeSettingTests {
  private func problems(_ flags: [SettingKey: String]) -> [ConfigurationError.Problem] {
    CallNodeTests.problems { _ = try node(flags) }
  }

  @Test func aFrameHasRoomForTheLargestPlace() {
    let found = problems(["descriptionBytes": "98304", "headersBytes": "32768"])
    #expect(found.map(\.setting) == ["descriptionBytes"])
    #expect(found.first?.value == "98304")
    #expect(
      found.first?.problem
        == "does not fit into a frame of 131072 bytes with headersBytes (32768), headersCount (32) "
        + "and pushDataBytes (1024)")
    #expect(found.first?.remedy == "Make them smaller, by 3456 bytes in all.")
    #expect(problems(["descriptionBytes": "98304"]) == [])
    #expect(problems(["headersBytes": "32768"]) == [])
    #expect(problems(["descriptionBytes": "94848", "headersBytes": "32768"]) == [])
    #expect(problems(["descriptionBytes": "94849", "headersBytes": "32768"]).count == 1)
  }

  @Test func theLargestPlaceThatIsAllowedFits() {
    func text(_ bytes: Int) -> String { String(repeating: "x", count: bytes) }
    let call = CallID(high: .max, low: .max)
    let headers = (0..<32).map { _ in CustomHeader(name: "n", value: text(1023)) }
    let request = PlaceRequest(
      call: call, ringTimeoutSeconds: 180, description: text(94_848), headers: headers,
      pushData: text(1024))
    let frame = ClientFrame(
      id: .max, command: .place(CallAddress(callee: text(128), call: call), request))
    #expect(DeviceCodec.protobuf.encode(frame).count <= DeviceCodec.frameBytesMaximum)
  }

  /// Whatever an app may allow its users, one call's place fits into it.
  @Test func theSmallestRateOfAUserHasRoomForTheLargestPlace() {
    let facts = AppLimit.signalBytesPerUser.facts
    #expect(facts.range.lowerBound * facts.seconds >= DeviceCodec.frameBytesMaximum)
  }

  /// In JSON each of their bytes may take six.
  @Test func aBodyHasRoomForTheLargestHeaders() throws {
    #expect(try node([:]).edge.peers.requestBodyBytesMax == 65_536)
    let large = try node(["headersBytes": "32768", "pushDataBytes": "2048"])
    #expect(large.edge.peers.requestBodyBytesMax == 218_112)
    var body = HTTPBodies.PlaceCall(from: "ann", to: "bob")
    let escaped = String(repeating: "\u{1}", count: 1023)
    body.headers = (0..<32).map { _ in CustomHeader(name: "n", value: escaped) }
    body.pushData = String(repeating: "\u{1}", count: 2048)
    #expect(HTTPBodies.encode(body).count <= 218_112)
  }

  /// Webhooks are retried for a day.
  @Test(arguments: [("0", true), ("1s", false), ("23h", false), ("1d", true), ("30d", true)])
  func eventsOutliveTheirRetries(kept: String, isGood: Bool) {
    let found = problems(["eventsKept": kept])
    #expect(found.map(\.setting) == (isGood ? [] : ["eventsKept"]))
    #expect(isGood || found.first?.problem.contains("retried for 24 hours") == true)
  }
}
