internal import CallCore

/// The content of a push, from which optional parts are removed until it fits.
struct PushDraft: Sendable {
  let content: PushContent
  private(set) var headers: [CustomHeader]
  private(set) var caller: Party
  private(set) var by: Party?
  private(set) var placedAt: Timestamp?
  /// The push data of a ring; empty: none.
  private(set) var pushData: String
  /// The omitted parts.
  private(set) var left: [OptionalPart] = []

  var job: PushJob { content.job }

  init(_ content: PushContent) {
    self.content = content
    headers = content.job.headers
    caller = content.job.caller
    by = content.job.by
    placedAt = content.job.placedAt
    pushData = content.job.purpose == .ring ? content.job.pushData : ""
  }

  /// Omits the next optional part, or as many headers as hold `excess` bytes.
  ///
  /// - Returns: false if nothing optional remains.
  mutating func shed(_ excess: Int) -> Bool {
    guard let part = OptionalPart.allCases.first(where: has) else { return false }
    switch part {
    case .headers: shedHeaders(excess)
    case .byDeviceName: by?.deviceName = ""
    case .callerDeviceName: caller.deviceName = ""
    case .byDevice: by?.device = ""
    case .callerDevice: caller.device = ""
    case .placedAt: placedAt = nil
    case .pushData: pushData = ""
    case .callerName: caller.name = ""
    }
    if left.last != part { left.append(part) }
    return true
  }

  private func has(_ part: OptionalPart) -> Bool {
    switch part {
    case .headers: !headers.isEmpty
    case .byDeviceName: by?.deviceName.isEmpty == false
    case .callerDeviceName: !caller.deviceName.isEmpty
    case .byDevice: by?.device.text.isEmpty == false
    case .callerDevice: !caller.device.text.isEmpty
    case .placedAt: placedAt != nil
    case .pushData: !pushData.isEmpty
    case .callerName: !caller.name.isEmpty
    }
  }

  /// Removes headers from the last one on. Each counts as its largest form, so no header is removed without need. If
  /// too few were removed, the next round removes more.
  private mutating func shedHeaders(_ excess: Int) {
    var excess = excess
    repeat {
      let header = headers.removeLast()
      excess -= Self.largestForm(of: header)
    } while excess > 0 && !headers.isEmpty
  }

  /// The most that a header can take in any form: `\u00xx` for each byte, twice escaped in Telnyx's text within a text,
  /// in addition to Twilio's `%xx`.
  private static func largestForm(of header: CustomHeader) -> Int {
    (header.name.utf8.count + header.value.utf8.count) * 12 + 48
  }
}
