import CallTelemetry
import callctl

/// Reports of calls to explain.
enum Story {
  /// A call from ann to bob; times of events in milliseconds.
  static func report(
    _ legs: [(device: String, state: String)], reason: String? = nil, by: String? = nil,
    _ events: [(Int64, String?, String)]
  ) -> CallReport {
    var report = CallReport(found: true, node: "c1")
    report.app = "demo"
    report.call = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
    report.callee = "bob"
    report.caller = .init(user: "ann", device: "phone", deviceName: "Ann's phone")
    report.phase = reason == nil ? "answered" : "ended"
    report.reason = reason
    report.by = by.map { .init(user: "bob", device: $0, deviceName: "") }
    report.shard = 3
    report.legs = legs.map {
      .init(
        party: .init(user: "bob", device: $0.device, deviceName: ""), state: $0.state, session: nil)
    }
    let start: Int64 = 1_767_323_045_678_000
    report.timeline =
      [.init(atMicroseconds: start, device: "phone", user: "ann", what: "placed")]
      + events.map {
        .init(atMicroseconds: start + $0.0 * 1000, device: $0.1, user: "bob", what: $0.2)
      }
    return report
  }

  /// A device as `callctl user` gets it.
  static func device(
    _ id: String, name: String = "", session: String? = nil, attached: Int64? = nil,
    registered: Int64? = nil, push: [String] = []
  ) -> UserReport.Device {
    var device = UserReport.Device()
    device.device = id
    device.name = name
    device.session = session
    device.attachedAtMilliseconds = attached
    device.registeredAtMilliseconds = registered
    device.pushProviders = push
    return device
  }

  /// An ended call, from a node that says nothing else of it.
  static func call(_ id: String, reason: String) -> UserReport.Call {
    var call = UserReport.Call()
    (call.call, call.phase, call.reason) = (id, "ended", reason)
    return call
  }

  /// The sentence about each leg.
  static func sentences(_ report: CallReport) -> [String] {
    CallView(report, user: nil).why.map(\.text)
  }

  static func sentence(_ report: CallReport) -> String { sentences(report).first ?? "" }

  static func text(_ report: CallReport) -> String {
    CallText.render(CallView(report, user: nil))
  }
}
