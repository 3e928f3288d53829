import CallCore
import Testing

/// Sinch's SDK takes a call from an alert. With every other dialect an alert of Apple's only shows.
@Suite struct SinchAlertTests {
  private func called(
    voip: String? = nil, alert: String? = nil, dialect: String, provider: PushProvider = .apns
  ) -> Bench {
    var bench = Bench()
    bench.enrol("b1", voip: voip, alert: alert, alertProvider: provider, dialect: dialect)
    _ = bench.take()
    bench.place()
    return bench
  }

  @Test("an alert token alone makes a leg, and rings") func alertAlone() {
    var bench = called(alert: "a1", dialect: "sinch")
    #expect(bench.pushes.map(\.purpose) == [.ring])
    #expect(bench.pushes.map(\.token.token) == ["a1"])
    #expect(bench.pushes.map(\.hasAlertToken) == [true])
    bench.report(.accepted, "b1", token: "a1")
    bench.pass(.milliseconds(29_999))
    #expect(bench.ends.isEmpty)
    bench.attach("b1")
    #expect(bench.invites("b1").count == 1)
  }

  @Test("a VoIP token rings before it") func both() {
    let bench = called(voip: "v1", alert: "a1", dialect: "sinch")
    #expect(bench.pushes.map(\.token.token) == ["v1"])
    #expect(bench.pushes.map(\.hasAlertToken) == [false])
  }

  @Test(
    "in every other dialect such a device cannot be reached",
    arguments: PushDialect.allCases.filter { $0 != .sinch })
  func otherDialects(dialect: PushDialect) {
    let bench = called(alert: "a1", dialect: dialect.rawValue)
    #expect(bench.pushes.allSatisfy { $0.purpose == .missedNotice })
    #expect(bench.ends.map(\.reason) == [.unreachable])
  }

  @Test("its alert token gone, it is no leg any more") func tokenGone() {
    var bench = called(alert: "a1", dialect: "sinch")
    bench.report(.tokenGone(at: nil), "b1", token: "a1")
    #expect(bench.ends.map(\.reason) == [.unreachable])
  }
}
