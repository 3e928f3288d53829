internal import CallCore

/// A push's content while it is made to fit: what is optional goes, part by part.
struct PushDraft: Sendable {
  let content: PushContent
  private(set) var headers: [CustomHeader]
  private(set) var caller: Party
  private(set) var by: Party?
  private(set) var placedAt: Timestamp?
  /// What was left out.
  private(set) var left: [OptionalPart] = []

  var job: PushJob { content.job }

  init(_ content: PushContent) {
    self.content = content
    headers = content.job.headers
    caller = content.job.caller
    by = content.job.by
    placedAt = content.job.placedAt
  }

  /// Leaves out the next part, or as many headers as hold `excess` bytes.
  ///
  /// - Returns: false when nothing optional remains.
  mutating func shed(_ excess: Int) -> Bool {
    if !headers.isEmpty {
      shedHeaders(excess)
      note(.headers)
      return true
    }
    if let by, !by.deviceName.isEmpty {
      self.by?.deviceName = ""
      return note(.byDeviceName)
    }
    if !caller.deviceName.isEmpty {
      caller.deviceName = ""
      return note(.callerDeviceName)
    }
    if let by, !by.device.text.isEmpty {
      self.by?.device = ""
      return note(.byDevice)
    }
    if !caller.device.text.isEmpty {
      caller.device = ""
      return note(.callerDevice)
    }
    if placedAt != nil {
      placedAt = nil
      return note(.placedAt)
    }
    return false
  }

  /// From the last one on. Each counts for more than it can take, so none goes that could stay; where
  /// too few went, the next round takes more.
  private mutating func shedHeaders(_ excess: Int) {
    var excess = excess
    repeat {
      let header = headers.removeLast()
      excess -= Self.largestForm(of: header)
    } while excess > 0 && !headers.isEmpty
  }

  /// More than a header can take in any form: of each byte `\u00xx`, in Telnyx's text within a text
  /// twice escaped, beside Twilio's `%xx`.
  private static func largestForm(of header: CustomHeader) -> Int {
    (header.name.utf8.count + header.value.utf8.count) * 12 + 48
  }

  @discardableResult
  private mutating func note(_ part: OptionalPart) -> Bool {
    if left.last != part { left.append(part) }
    return true
  }
}
