internal import CallLoadKit

/// `CallLoadKit` is the program. It is a module of its own, so that tests link it without this target's static libraries.
@main struct Main {
  static func main() async { await LoadProgram.main() }
}
