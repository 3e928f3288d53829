// The device's machine is a module of its own, without NIO. Who imports this one has it as well.
@_exported public import CallMachine
