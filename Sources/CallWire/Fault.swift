internal import CallCore

/// The fault in bytes that came in. Each codec turns it into its own error.
package enum Fault: Error {
  /// Not protobuf, not JSON, or too deep.
  case malformed
  /// This field's value cannot be.
  case field(String)
  /// This field is not there.
  case missing(String)
  /// A oneof has no member, or one that this version does not know.
  case unknownMember(String)
  /// More than one command stands in a frame.
  case secondCommand
  /// A capability of a device that has another name than those there are.
  case unknownCapability
  /// Its format is later than this version reads.
  case laterFormat(UInt32)

  /// The same, of a message that stands in `field` of another one.
  func inside(_ field: String) -> Fault {
    if case .field(let name) = self { .field("\(field).\(name)") } else { self }
  }

  var sentence: String {
    switch self {
    case .malformed: "The message could not be read."
    case .field(let name): "The field \(name) is not valid."
    case .missing(let name): "The field \(name) is missing."
    case .unknownMember(let name): "The \(name) is missing or unknown."
    case .secondCommand: "The frame holds two commands; say each in a frame of its own."
    case .unknownCapability: CallError.Code.unknownCapability.sentence
    case .laterFormat(let format):
      "It has format \(format), which a newer version writes; this one reads up to "
        + "\(ClusterCodec.format)."
    }
  }
}
