/// A token's text is shown by nothing that prints it, however deep it is in what is printed: who has
/// it can be a nuisance to the device.
extension PushToken: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String {
    "PushToken(\(provider.name), \(environment), \(fingerprint.isEmpty ? "hidden" : fingerprint))"
  }
  public var debugDescription: String { description }
  public var customMirror: Mirror {
    Mirror(
      self,
      children: [
        "provider": provider.name, "environment": environment, "topic": topic,
        "fingerprint": fingerprint,
      ])
  }
}
