internal import WebPhoneKit

/// `WebPhoneKit` is the program. It is a module of its own, so that tests link it.
@main struct Main {
  static func main() async { await WebPhoneProgram.main() }
}
