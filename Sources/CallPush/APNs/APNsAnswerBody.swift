package import CallCore
internal import CallTelemetry

/// What stands in the body of a refusal and in the debug data of a GOAWAY frame:
/// `{"reason":"...","timestamp":...}`.
package struct APNsAnswerBody: Sendable, Equatable {
  /// Only letters and digits, as Apple's reasons are; else empty. So it can be logged.
  package var reason: String
  package var timestamp: Timestamp?

  /// More than that is not read.
  package static let bytesMax = 4096
  private static let reasonBytesMax = 64

  private struct Fields: Decodable {
    var reason: String?
    /// Milliseconds since 1970.
    var timestamp: Double?
  }

  /// Takes whatever came: what cannot be read is an empty reason.
  package init(_ bytes: [UInt8]) {
    // No decoder for what is not even an object: GOAWAY data of others may be any text.
    guard bytes.first == UInt8(ascii: "{"),
      let fields = BoundedJSON.decode(Fields.self, bytes, bytesMax: Self.bytesMax)
    else {
      reason = ""
      return
    }
    let text = fields.reason ?? ""
    reason = text.isAlphanumericASCII() && text.utf8.count <= Self.reasonBytesMax ? text : ""
    if let milliseconds = fields.timestamp, milliseconds > 0, milliseconds < 1e15 {
      timestamp = Timestamp(microseconds: Int64(milliseconds) * 1000)
    }
  }
}
