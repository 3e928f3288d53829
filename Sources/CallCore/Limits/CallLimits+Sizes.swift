/// Sizes that follow from limits which an operator may set. No limit refuses later in a flow what an earlier one has
/// let in.
extension CallLimits {
  /// The bytes of all descriptions, candidates and informations kept for one side: they go out in one message with the
  /// invite or the answer. The largest description has room, and so has the largest candidate.
  public var signalBytesWaiting: Int { max(65_536, descriptionBytes) }

  /// The most bytes of a `place` in protobuf: 12 are for the form of each header, and 2048 for ids, names and the rest.
  /// The invite that it becomes is no larger, but for the signals that wait.
  public var placeBytes: Int {
    descriptionBytes + headersBytes + 12 * headersCount + pushDataBytes + 2048
  }

  /// The most bytes of a body by which an app's server places a call. JSON may take six bytes for one; 32 are for the
  /// form of each header, and 8192 for users, names and the rest.
  public var placingBodyBytes: Int {
    6 * (headersBytes + pushDataBytes) + 32 * headersCount + 8192
  }
}
